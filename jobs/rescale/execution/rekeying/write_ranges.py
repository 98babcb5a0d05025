"""Who writes what: every new stream is cut into write ranges, which are dealt to the partitions of the shuffle.

A large stream has many ranges, so that the work is not bound to the number of subtasks; many small ones share a
partition. How the cuts lie changes no byte, but where a stream's file is put in parts they are its parts, and its ETag
tells them. So they depend on the plan alone: who goes on with fewer cores, or was thought lost, puts the same file. How
many ranges a partition has is a matter of the cores that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rescale.execution.writers.protocol import WriteRange
from rescale.flink.key_groups import key_group_range
from rescale.planning.task_sizes import MOST_PARTITIONS, RANGE_SIZE
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan
from rescale.planning.values.rekeying import Rekeying

_RANGES = 256
"""Into how many ranges the state is cut at least, if these then have as many bytes as a part."""

_TASKS_PER_CORE = 2


def plan_write_ranges(
    plan: Plan, rekeyings: Mapping[int, Rekeying], range_size: Callable[[OperatorPlan, int], int | None], cores: int
) -> list[WriteRange]:
    """The ranges of all their streams, in order of operator and key group; `rekeyings` are by the operator's number."""
    total = sum(rekeying.bytes for rekeying in rekeyings.values())
    cut = min(RANGE_SIZE, max(plan.part_size, total // _RANGES))
    size = max(min(RANGE_SIZE, max(1, total // (cores * _TASKS_PER_CORE))), total // MOST_PARTITIONS)
    ranges: list[WriteRange] = []
    partition, filled = 0, 0
    for number, rekeying in rekeyings.items():
        operator = plan.operators[number]
        limit = range_size(operator, cut)
        sizes = rekeying.expected_key_groups(operator.max_parallelism, operator.new_max_parallelism)
        for subtask in range(operator.new_parallelism):
            for first, last, expected in _cuts(operator, subtask, sizes, limit):
                if filled and filled + expected > size:
                    partition, filled = partition + 1, 0
                ranges.append(WriteRange(number, subtask, first, last, partition))
                filled += expected
    return ranges


def _cuts(operator: OperatorPlan, subtask: int, sizes: Sequence[int], size: int | None) -> list[tuple[int, int, int]]:
    """(first, last, bytes to expect) of runs of key groups that have about `size` bytes each; None: of one run."""
    own = key_group_range(operator.new_max_parallelism, operator.new_parallelism, subtask)
    expected = sizes[own.first : own.last + 1]
    if size is None:
        return [(own.first, own.last, sum(expected))]
    cuts: list[tuple[int, int, int]] = []
    first, filled = own.first, 0
    for key_group, more in enumerate(expected, own.first):
        if filled and filled + more > size:
            cuts.append((first, key_group - 1, filled))
            first, filled = key_group, 0
        filled += more
    return [*cuts, (first, own.last, filled)]

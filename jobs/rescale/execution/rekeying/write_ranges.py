"""Assignment of the new streams' write ranges to the partitions of the shuffle.

A large stream has many ranges, so that the number of subtasks does not limit the number of tasks; many small streams
share a partition. The cuts between ranges change no byte of a file, but ranges become parts of its upload, and its ETag
depends on these parts. So cuts depend on the plan alone: a run that resumes with fewer cores writes the same files as
tasks of the lost run that are still active. Only the number of ranges in a partition depends on the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rescale.execution.writers.protocol import WriteRange
from rescale.flink.key_groups import key_group_range
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.planning.task_sizes import MOST_PARTITIONS, RANGE_SIZE

_RANGES = 256
"""Smallest number of ranges that the state is split into, if each then has at least the bytes of a part."""

_TASKS_PER_CORE = 2


def plan_write_ranges(
    plan: Plan, rekeyings: Mapping[int, Rekeying], range_size: Callable[[Rekeying, int], int | None], cores: int
) -> list[WriteRange]:
    """Return the ranges of all streams, in the order of operator and key group; `rekeyings` are by operator number."""
    total = sum(rekeying.bytes for rekeying in rekeyings.values())
    cut = min(RANGE_SIZE, max(plan.part_size, total // _RANGES))
    size = max(min(RANGE_SIZE, max(1, total // (cores * _TASKS_PER_CORE))), total // MOST_PARTITIONS)
    ranges: list[WriteRange] = []
    partition, filled = 0, 0
    for number, rekeying in rekeyings.items():
        operator = plan.operators[number]
        limit = range_size(rekeying, cut)
        sizes = rekeying.expected_key_groups(operator.max_parallelism, operator.new_max_parallelism)
        for subtask in range(operator.new_parallelism):
            for first, last, expected in _cuts(operator, subtask, sizes, limit):
                if filled and filled + expected > size:
                    partition, filled = partition + 1, 0
                ranges.append(WriteRange(number, subtask, first, last, partition))
                filled += expected
    return ranges


def _cuts(operator: OperatorPlan, subtask: int, sizes: Sequence[int], size: int | None) -> list[tuple[int, int, int]]:
    """Return (first, last, expected bytes) of runs of key groups of about `size` bytes; None gives a single run."""
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

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

_LEAST_RANGES = 256
"""Smallest number of ranges that the state is split into, if each then has at least the bytes of a part."""

_TASKS_PER_CORE = 2


def plan_write_ranges(
    plan: Plan, rekeyings: Mapping[int, Rekeying], range_size: Callable[[Rekeying, int], int | None], cores: int
) -> list[WriteRange]:
    """Return the ranges of all streams, in the order of operator and key group; `rekeyings` are by operator number."""
    total = sum(rekeying.bytes for rekeying in rekeyings.values())
    range_bytes = min(RANGE_SIZE, max(plan.part_size, total // _LEAST_RANGES))
    partition_bytes = max(min(RANGE_SIZE, max(1, total // (cores * _TASKS_PER_CORE))), total // MOST_PARTITIONS)
    ranges: list[WriteRange] = []
    partition, filled = 0, 0
    for number, rekeying in rekeyings.items():
        operator = plan.operators[number]
        limit = range_size(rekeying, range_bytes)
        sizes = rekeying.expected_key_groups(operator.max_parallelism, operator.new_max_parallelism)
        for subtask in range(operator.new_parallelism):
            for first, last, expected in _ranges(operator, subtask, sizes, limit):
                if filled and filled + expected > partition_bytes:
                    partition, filled = partition + 1, 0
                ranges.append(WriteRange(number, subtask, first, last, partition))
                filled += expected
    return ranges


def _ranges(operator: OperatorPlan, subtask: int, sizes: Sequence[int], size: int | None) -> list[tuple[int, int, int]]:
    """Return (first, last, expected bytes) of runs of key groups of about `size` bytes; None gives a single run."""
    key_groups = key_group_range(operator.new_max_parallelism, operator.new_parallelism, subtask)
    expected = sizes[key_groups.first : key_groups.last + 1]
    if size is None:
        return [(key_groups.first, key_groups.last, sum(expected))]
    cuts: list[tuple[int, int, int]] = []
    first, filled = key_groups.first, 0
    for key_group, group_bytes in enumerate(expected, key_groups.first):
        if filled and filled + group_bytes > size:
            cuts.append((first, key_group - 1, filled))
            first, filled = key_group, 0
        filled += group_bytes
    return [*cuts, (first, key_groups.last, filled)]

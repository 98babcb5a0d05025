"""Cuts the new streams into write ranges, and assigns these to the partitions of the shuffle.

A large stream has many ranges, so that the number of subtasks does not limit the number of tasks; many small streams
share a partition. The cuts between ranges change no byte of a file, but ranges become parts of its upload, and the ETag
of the file depends on these parts. So cuts depend on the plan alone. A run that resumes with fewer cores then writes
the same files, with the same ETags, as tasks of the lost run that are still active. Only the number of ranges in a
partition depends on the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rescale.execution.sources.spans import key_group_runs
from rescale.execution.writers.protocol import WriteRange
from rescale.flink.key_groups import key_group_range
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.planning.task_sizes import MOST_PARTITIONS, RANGE_SIZE

_LEAST_RANGE_COUNT = 256
"""Smallest number of ranges into which the state is split, unless a range would be smaller than a part of an upload."""

_TASKS_PER_CORE = 2


def plan_write_ranges(
    plan: Plan,
    rekeying_by_operator: Mapping[int, Rekeying],
    range_size: Callable[[Rekeying, int], int | None],
    cores: int,
) -> list[WriteRange]:
    """Return the ranges of all streams, in the order of operator and key group.

    `rekeying_by_operator` is by the operator's index in the plan. `range_size` is `KeyedWriter.range_size`.
    """
    total_size = sum(rekeying.bytes for rekeying in rekeying_by_operator.values())
    preferred_size = min(RANGE_SIZE, max(plan.part_size, total_size // _LEAST_RANGE_COUNT))
    partition_size = max(
        min(RANGE_SIZE, max(1, total_size // (cores * _TASKS_PER_CORE))), total_size // MOST_PARTITIONS
    )
    ranges: list[WriteRange] = []
    partition, filled_bytes = 0, 0
    for operator_index, rekeying in rekeying_by_operator.items():
        operator = plan.operators[operator_index]
        most_bytes = range_size(rekeying, preferred_size)
        key_group_sizes = rekeying.expected_key_group_bytes(operator.max_parallelism, operator.new_max_parallelism)
        for subtask in range(operator.new_parallelism):
            key_groups = key_group_range(operator.new_max_parallelism, operator.new_parallelism, subtask)
            own_sizes = key_group_sizes[key_groups.first : key_groups.last + 1]
            for run, expected_size in key_group_runs(
                key_groups.first, own_sizes, sum(own_sizes) if most_bytes is None else most_bytes
            ):
                if filled_bytes and filled_bytes + expected_size > partition_size:
                    partition, filled_bytes = partition + 1, 0
                ranges.append(WriteRange(operator_index, subtask, run.first, run.last, partition))
                filled_bytes += expected_size
    return ranges

"""Who writes what: every new stream is cut into lanes, and lanes are dealt to the partitions of the shuffle.

A lane is a run of key groups of one stream that one task writes. A large stream has many, so that the work is not bound
to the number of subtasks; many small ones share a partition. How the cuts lie changes nothing in what is written.
"""

from __future__ import annotations

from typing import NamedTuple

from rescale.execution.rekeying.read_units import is_shuffled
from rescale.flink.key_groups import key_group_range
from rescale.planning.plan import OperatorPlan, Plan

LANE_SIZE = 64 * 1024 * 1024
"""Bytes that a lane should get: a task holds as much in memory while it writes."""

_TASKS_PER_CORE = 2


class Lane(NamedTuple):
    """The key groups `first` to `last` of a new stream, written by the task of `partition`."""

    operator: int
    subtask: int
    first: int
    last: int
    partition: int


def plan_lanes(plan: Plan, cores: int) -> list[Lane]:
    """The lanes of all streams whose records get new key groups, in order of operator and key group."""
    total = sum(operator.rekeying.bytes for operator in plan.operators if operator.rekeying and is_shuffled(operator))
    size = min(LANE_SIZE, max(1, total // (cores * _TASKS_PER_CORE)))
    lanes: list[Lane] = []
    partition, filled = 0, 0
    for number, operator in enumerate(plan.operators):
        if not is_shuffled(operator):
            continue
        for subtask in range(operator.new_parallelism):
            for first, last, expected in _cuts(operator, subtask, size):
                if filled and filled + expected > size:
                    partition, filled = partition + 1, 0
                lanes.append(Lane(number, subtask, first, last, partition))
                filled += expected
    return lanes


def _cuts(operator: OperatorPlan, subtask: int, size: int) -> list[tuple[int, int, int]]:
    """(first, last, bytes to expect) of runs of key groups that have about `size` bytes each."""
    own = key_group_range(operator.new_max_parallelism, operator.new_parallelism, subtask)
    expected = operator.expected_key_groups[own.first : own.last + 1]
    if operator.rekeying is not None and operator.rekeying.compressed:
        return [(own.first, own.last, sum(expected))]  # where a part begins is known when all before it is compressed
    cuts: list[tuple[int, int, int]] = []
    first, filled = own.first, 0
    for key_group, more in enumerate(expected, own.first):
        if filled and filled + more > size:
            cuts.append((first, key_group - 1, filled))
            first, filled = key_group, 0
        filled += more
    return [*cuts, (first, own.last, filled)]

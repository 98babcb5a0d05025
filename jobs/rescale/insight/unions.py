"""Union list states: every subtask gets all elements of all others, so that they grow with the parallelism.

A function that keeps what it got, instead of its own part, writes every element once per subtask into the next
snapshot: from restore to restore the state is multiplied by the parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.flink.metadata.handles import DistributionMode
from rescale.snapshot.model import ElementState, Operator, Snapshot

MOST_BYTES_READ = 16 * 1024 * 1024
"""Of one state; a larger one is not looked into."""


@dataclass(frozen=True)
class UnionList:
    """One union list state; `bytes` of all its elements lie in the snapshot, `bytes_at_restore` reach the subtasks.

    `repeated`: the first two subtasks wrote the same elements, at least one for each subtask, and all others as many of
    the same lengths.
    """

    operator_id: str
    label: str
    state: str
    elements: int
    bytes: int
    parallelism: int
    bytes_at_restore: int
    repeated: bool


def union_lists(snapshot: Snapshot, operator: Operator, parallelism: int) -> list[UnionList]:
    """Those of an operator that is restored at `parallelism`."""
    parts: dict[str, list[ElementState]] = {}
    for stream in operator.operator:
        for state in stream.states:
            if state.mode is DistributionMode.UNION:
                parts.setdefault(state.name, []).append(state)
    return [
        _union_list(snapshot, operator, name, states, parallelism)
        for name, states in parts.items()
        if any(state.elements for state in states)
    ]


def _union_list(
    snapshot: Snapshot, operator: Operator, name: str, states: list[ElementState], parallelism: int
) -> UnionList:
    size = sum(extent.length for state in states for extent in state.elements)
    return UnionList(
        operator.operator_id,
        operator.label,
        name,
        elements=sum(len(state.elements) for state in states),
        bytes=size,
        parallelism=parallelism,
        bytes_at_restore=parallelism * size,
        repeated=_look_repeated(states, operator.parallelism) and _are_equal(snapshot, *states[:2]),
    )


def _look_repeated(states: list[ElementState], parallelism: int) -> bool:
    lengths = [sorted(extent.length for extent in state.elements) for state in states]
    return (
        len(states) == parallelism > 1 and len(lengths[0]) >= parallelism and lengths.count(lengths[0]) == parallelism
    )


def _are_equal(snapshot: Snapshot, one: ElementState, other: ElementState) -> bool:
    """Whether two subtasks wrote the same elements, in whatever order; not if they are too large to be read."""
    if snapshot.missing or 2 * sum(extent.length for extent in one.elements) > MOST_BYTES_READ:
        return False
    contents = snapshot.contents
    return sorted(contents.read_each(one.elements)) == sorted(contents.read_each(other.elements))

"""Finds union list states: every subtask gets the elements of all subtasks, so restores grow with the parallelism.

If each subtask keeps all elements instead of its own part, the next snapshot holds every element once per subtask. So
each restore multiplies the state by the parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.flink.metadata.handles import DistributionMode
from rescale.snapshot.model import ElementState, Operator, Snapshot

MOST_BYTES_READ = 16 * 1024 * 1024
"""Largest number of bytes that are read to compare the elements of two subtasks."""


@dataclass(frozen=True)
class UnionList:
    """A union list state of `bytes` in the snapshot; all subtasks together restore `bytes_at_restore`.

    `repeated` tells whether all subtasks seem to have written the same elements: the first two did, and all others
    wrote elements of the same lengths. Each subtask must have at least as many elements as there are subtasks.
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
    """Return the union list states of an operator that is restored at `parallelism`."""
    states_by_name: dict[str, list[ElementState]] = {}
    for stream in operator.element_streams:
        for state in stream.states:
            if state.mode is DistributionMode.UNION:
                states_by_name.setdefault(state.name, []).append(state)
    return [
        _union_list(snapshot, operator, name, states, parallelism)
        for name, states in states_by_name.items()
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
        repeated=_seem_repeated(states, operator.parallelism) and _are_equal(snapshot, *states[:2]),
    )


def _seem_repeated(states: list[ElementState], parallelism: int) -> bool:
    lengths = [sorted(extent.length for extent in state.elements) for state in states]
    return (
        len(states) == parallelism > 1 and len(lengths[0]) >= parallelism and lengths.count(lengths[0]) == parallelism
    )


def _are_equal(snapshot: Snapshot, first: ElementState, second: ElementState) -> bool:
    """Return whether two subtasks wrote the same elements, in any order.

    Return False if files are missing, or if the elements are too large to compare.
    """
    if snapshot.missing_files or 2 * sum(extent.length for extent in first.elements) > MOST_BYTES_READ:
        return False
    files = snapshot.contents
    return sorted(files.read_each(first.elements)) == sorted(files.read_each(second.elements))

"""Union list states: every subtask gets all elements of all others, so that they grow with the parallelism.

A function that keeps what it got, instead of its own part, writes every element once per subtask into the next
snapshot: from restore to restore the state is multiplied by the parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.snapshot import Operator


@dataclass(frozen=True)
class UnionList:
    """One union list state; `bytes` of all its elements lie in the snapshot, `bytes_at_restore` reach the subtasks.

    `repeated`: every subtask wrote as many elements, of the same lengths, as every other, and at least one for each
    subtask: it looks as if each kept all of them.
    """

    operator_id: str
    label: str
    state: str
    elements: int
    bytes: int
    parallelism: int
    bytes_at_restore: int
    repeated: bool


def union_lists(operator: Operator, parallelism: int) -> list[UnionList]:
    """Those of an operator that is restored at `parallelism`."""
    lengths: dict[str, list[list[int]]] = {}
    for stream in operator.operator:
        for state in stream.states:
            if state.mode is DistributionMode.UNION:
                lengths.setdefault(state.name, []).append([extent.length for extent in state.elements])
    return [
        UnionList(
            operator.entry.operator_id,
            operator.label,
            name,
            elements=sum(len(part) for part in parts),
            bytes=sum(map(sum, parts)),
            parallelism=parallelism,
            bytes_at_restore=parallelism * sum(map(sum, parts)),
            repeated=_are_repeated(parts, operator.entry.parallelism),
        )
        for name, parts in lengths.items()
        if any(parts)
    ]


def _are_repeated(parts: list[list[int]], parallelism: int) -> bool:
    same = all(part == parts[0] for part in parts)
    return same and len(parts) == parallelism > 1 and len(parts[0]) >= parallelism

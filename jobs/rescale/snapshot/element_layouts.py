"""How the elements of operator state lie in old subtasks: what `redistribute` deals, and where what it deals lies."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.redistribution import StateLayout, StateShare
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator


def layouts_of(operator: Operator, sources: Sequence[ElementStream]) -> list[list[StateLayout]]:
    """How many elements of each state every old subtask has, in one of the two slots."""
    by_subtask = {source.subtask: source for source in sources}
    return [_layout(by_subtask.get(subtask)) for subtask in range(operator.parallelism)]


def elements_of(share: StateShare, sources: dict[int, ElementStream]) -> list[Extent]:
    """The extents of a share's elements, in order; `sources` by old subtask."""
    extents: list[Extent] = []
    for run in share.runs:
        state = next(state for state in sources[run.source].states if state.name == share.name)
        extents += state.elements[run.first : run.first + run.count]
    return extents


def _layout(source: ElementStream | None) -> list[StateLayout]:
    if source is None:
        return []
    return [StateLayout(state.name, state.mode, len(state.elements)) for state in source.states]

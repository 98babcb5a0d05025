"""Counts the elements of old subtasks for `redistribute`, and finds the extents of a new subtask's share."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.redistribution import StateLayout, StateShare
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator


def layouts_of(operator: Operator, sources: Sequence[ElementStream]) -> list[list[StateLayout]]:
    """Return the number of elements of each state in every old subtask; `sources` are the streams of one slot."""
    source_by_subtask = {source.subtask: source for source in sources}
    return [_layout(source_by_subtask.get(subtask)) for subtask in range(operator.parallelism)]


def extents_of_share(share: StateShare, source_by_subtask: dict[int, ElementStream]) -> list[Extent]:
    """Return the extents of the elements in a new subtask's share; `source_by_subtask` has the old streams."""
    extents: list[Extent] = []
    for run in share.runs:
        state = next(state for state in source_by_subtask[run.source].states if state.name == share.name)
        extents += state.elements[run.first : run.first + run.count]
    return extents


def _layout(source: ElementStream | None) -> list[StateLayout]:
    if source is None:
        return []
    return [StateLayout(state.name, state.mode, len(state.elements)) for state in source.states]

"""Warnings about list states whose operator cannot work with the redistributed elements."""

from __future__ import annotations

import pytest

from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from support.snapshot_bytes import operator_header
from support.synthetic import element_stream, operator, snapshot


@pytest.mark.parametrize(
    ("state", "parallelism", "is_warned"),
    [("expired-files", 3, True), ("expired-files", 1, False), ("expired-files", 2, False), ("buckets", 3, False)],
)
def test_compactor_of_a_sql_table_with_too_few_elements_gives_a_warning(
    state: str, parallelism: int, is_warned: bool
) -> None:
    elements = tuple(
        element_stream(i, {state: (DistributionMode.SPLIT_DISTRIBUTE, 1)}, operator_header()) for i in range(2)
    )
    request = make_request("/source", "/target", [str(parallelism)])
    warnings = "\n".join(make_plan(snapshot(operator("compact", elements=elements)), request).warnings)
    assert (f"an element of expired-files in every subtask, and there are 2 for {parallelism}" in warnings) is is_warned


@pytest.mark.parametrize(
    ("element_counts", "parallelism", "is_warned"),
    [
        ((1, 1), 4, True),
        ((1, 1), 2, False),
        ((1, 1), 1, False),
        ((3, 1), 4, False),
        ((2, 0), 4, False),
        ((2, 1), 4, True),
    ],
)
def test_writer_subtasks_that_would_start_without_an_element_give_a_warning(
    element_counts: tuple[int, int], parallelism: int, is_warned: bool
) -> None:
    assert ("writer_raw_states has" in _warnings(element_counts, "writer_raw_states", parallelism)) is is_warned


@pytest.mark.parametrize("mode", [DistributionMode.UNION, DistributionMode.BROADCAST])
def test_union_and_broadcast_states_give_no_warning_about_missing_elements(mode: DistributionMode) -> None:
    assert "start with none" not in _warnings((1, 1), "writer_raw_states", 4, mode)


@pytest.mark.parametrize("state", ["SourceReaderState", "streaming_committer_raw_states"])
def test_readers_and_committers_without_an_element_give_no_warning(state: str) -> None:
    assert "start with none" not in _warnings((1, 1), state, 4)


def _warnings(
    element_counts: tuple[int, ...],
    state: str,
    parallelism: int,
    mode: DistributionMode = DistributionMode.SPLIT_DISTRIBUTE,
) -> str:
    """Return a plan's warnings for an operator; `element_counts` are those of its state, by subtask."""
    streams = tuple(
        element_stream(i, {state: (mode, element_count)}, operator_header())
        for i, element_count in enumerate(element_counts)
    )
    request = make_request("/source", "/target", [str(parallelism)])
    return "\n".join(make_plan(snapshot(operator("writer", elements=streams)), request).warnings)

"""Warnings about list states whose owner cannot work with the redistributed elements."""

from __future__ import annotations

import pytest

from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from support.synthetic import element_stream, operator, snapshot


@pytest.mark.parametrize(
    ("state", "parallelism", "is_said"),
    [("expired-files", 3, True), ("expired-files", 1, False), ("expired-files", 2, False), ("buckets", 3, False)],
)
def test_the_compactor_of_a_sql_table_needs_an_element_in_every_subtask(
    state: str, parallelism: int, is_said: bool
) -> None:
    elements = tuple(element_stream(i, {state: (DistributionMode.SPLIT_DISTRIBUTE, 1)}, b"head") for i in range(2))
    request = make_request("/source", "/target", [str(parallelism)])
    warnings = "\n".join(make_plan(snapshot(operator("compact", elements=elements)), request).warnings)
    assert (f"an element of expired-files in every subtask, and there are 2 for {parallelism}" in warnings) is is_said

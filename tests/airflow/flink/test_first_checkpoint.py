"""The sentence on the first checkpoint of a job started from a result, by the statistics of the old job."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rescale.airflow.flink.first_checkpoint import first_checkpoint_text
from rescale.flink_rest.client import Flink

COMPLETED = {"id": 7, "state_size": 6_000_000_000, "external_path": "file:/c/chk-7"}
SUMMARY = {"checkpointed_size": {"max": 3_000_000_000}, "end_to_end_duration": {"max": 30_000}}


@pytest.mark.parametrize(
    ("statistics", "text"),
    [
        ({"latest": {"completed": COMPLETED}, "summary": SUMMARY}, "all of its state (6 GB), for about 1 minute."),
        ({"latest": {"completed": COMPLETED}}, "all of its state (6 GB)."),
        ({"latest": {"completed": COMPLETED}, "summary": {}}, "all of its state (6 GB)."),
        ({"latest": {}, "summary": SUMMARY}, "all of its state."),
        (None, "all of its state."),
    ],
    ids=["all", "no summary", "empty summary", "no checkpoint", "unknown job"],
)
def test_sentence_gives_known_size_and_duration(statistics: dict[str, Any] | None, text: str) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        is_known = statistics is not None
        return httpx.Response(200 if is_known else 404, json=statistics if is_known else {"errors": ["not found"]})

    with Flink("http://flink", transport=httpx.MockTransport(answer)) as flink:
        assert text in first_checkpoint_text(flink, "job")

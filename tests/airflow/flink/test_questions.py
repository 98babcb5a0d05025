"""The clause that describes an answer says what became of the job."""

from __future__ import annotations

import pytest

from rescale.airflow.flink.questions import Answer, describe_answer


@pytest.mark.parametrize(
    ("answer", "clause"),
    [
        ({"job": "1a"}, "job 1a has ended"),
        ({"job": "1a", "name": "clicks", "went_back": False}, "job 1a still runs"),
        ({"start": "flink run"}, "start the job by hand: flink run"),
    ],
)
def test_clause_of_an_answer(answer: Answer, clause: str) -> None:
    assert describe_answer(answer) == clause

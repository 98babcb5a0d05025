"""Questions to Flink end when there can be no answer; logs and errors describe an answer by the job's fate."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from rescale.airflow.flink import checkpoint_question
from rescale.airflow.flink.checkpoint_question import CheckpointQuestion
from rescale.airflow.flink.questions import Answer, describe_answer
from rescale.flink_rest.client import CheckpointProgress
from rescale.flink_rest.responses import CompletedCheckpoint
from rescale.text.errors import RequestError


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


@pytest.mark.parametrize("last", [None, CompletedCheckpoint(id=6), CompletedCheckpoint(id=7)])
def test_checkpoint_that_flink_does_not_list_yet_is_waited_for(
    last: CompletedCheckpoint | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask_for_unlisted_checkpoint(last, monkeypatch) is None


def test_checkpoint_that_later_ones_have_replaced_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="Flink has forgotten the checkpoint"):
        ask_for_unlisted_checkpoint(CompletedCheckpoint(id=8), monkeypatch)


def ask_for_unlisted_checkpoint(last: CompletedCheckpoint | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask for the complete checkpoint 7, of which Flink has no details; `last` is the last one that it lists."""
    flink = MagicMock(
        triggered_checkpoint=Mock(return_value=CheckpointProgress(True, None, 7)),
        checkpoint_details=Mock(return_value=None),
        last_checkpoint=Mock(return_value=last),
    )
    flink.__enter__.return_value = flink
    monkeypatch.setattr(checkpoint_question, "open_flink", lambda _: flink)
    return CheckpointQuestion("http://flink", "1" * 32, "2" * 32).ask()

"""The cancel of a job, whose requests may be lost."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rescale.airflow.flink import checkpoint_stop, last_checkpoint
from rescale.airflow.flink.checkpoint_stop import stop_at_checkpoint
from rescale.airflow.flink.job_record import Phase
from rescale.airflow.flink.last_checkpoint import cancel
from rescale.airflow.live import follow_work
from rescale.flink_rest.running_job import JobOverview
from rescale.text.errors import RequestError, RescaleError, StoreError

UNREACHABLE = StoreError("Flink cannot be reached")


class Cluster:
    """A Flink that answers questions about its job with `answers`, in turn: the state, or an error that is raised.

    The first `lost_count` requests to cancel the job raise an error.
    """

    address = "http://flink"

    def __init__(self, *answers: str | StoreError | None, lost_count: int = 0) -> None:
        self.answers, self.lost_count, self.cancel_count = list(answers), lost_count, 0

    def job_overview(self, job_id: str) -> JobOverview | None:
        state = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(state, StoreError):
            raise state
        return None if state is None else JobOverview(job_id, "clicks", state)

    def answer_cache_seconds(self) -> float:
        return 3.0

    def cancel(self, _: str) -> None:
        self.cancel_count += 1
        if self.cancel_count <= self.lost_count:
            raise UNREACHABLE


@pytest.mark.parametrize(
    ("cluster", "cancel_count"),
    [
        (Cluster("RUNNING", "CANCELLING", "CANCELED"), 1),
        (Cluster("RUNNING", "CANCELLING", "CANCELED", lost_count=1), 1),
        (Cluster("RUNNING", "RUNNING", "CANCELLING", "CANCELED", lost_count=1), 2),
        (Cluster("RUNNING", UNREACHABLE, "CANCELLING", UNREACHABLE, "CANCELED"), 1),
        (Cluster("RUNNING", "CANCELLING", UNREACHABLE, "RUNNING", "CANCELED"), 2),
        (Cluster("CANCELLING", "CANCELED"), 0),
        (Cluster(None), 0),
    ],
    ids=["plain", "answer lost", "request lost", "Flink away", "failover", "cancelled before", "unknown"],
)
def test_cancel_is_repeated_until_the_job_ends(cluster: Any, cancel_count: int) -> None:
    cancel(cluster, "a")
    assert cluster.cancel_count == cancel_count


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLING", UNREACHABLE])
def test_job_that_does_not_end_is_an_error_worth_a_retry(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_checkpoint, "_CANCEL_TIMEOUT_SECONDS", 0.2)
    cluster: Any = Cluster(state)
    with pytest.raises(StoreError):
        cancel(cluster, "a")


def test_job_that_finishes_is_not_handed_over() -> None:
    cluster: Any = Cluster("RUNNING", "FINISHED")
    with pytest.raises(RescaleError, match="finished by itself"):
        cancel(cluster, "a")


@pytest.mark.parametrize(("state", "takes_another"), [("CANCELLING", False), ("RUNNING", True)])
def test_job_that_is_being_cancelled_makes_no_other_checkpoint(
    state: str, takes_another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier try of the task has cancelled the job, and was killed."""
    cluster: Any = Cluster(state, "CANCELED")
    stop = Mock()
    monkeypatch.setattr(checkpoint_stop, "open_flink", lambda _: nullcontext(cluster))
    monkeypatch.setattr(checkpoint_stop, "cancel_after_checkpoint", stop)
    monkeypatch.setattr(checkpoint_stop, "final_checkpoint", lambda *_: "/job/chk-8")
    monkeypatch.setattr(checkpoint_stop, "refuse_later_snapshot", lambda *_: None)
    before: Any = SimpleNamespace(flink="http://flink", job_id="a", directory="/job", name="clicks")
    record: Any = Mock(phase=Phase.STOPS, checkpoint_number=7)
    assert stop_at_checkpoint(before, record) == {"savepoint": "/job/chk-8", "job": "a", "state": "CANCELED"}
    record.note_checkpoint.assert_called_once_with(8)
    assert stop.called == takes_another


def test_final_error_after_the_start_does_not_end_the_new_job() -> None:
    with follow_work._logging_final_errors():
        raise RequestError("the store refuses the report")
    with pytest.raises(StoreError), follow_work._logging_final_errors():
        raise UNREACHABLE

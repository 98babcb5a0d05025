"""The last round is made before the cancel, unless the job makes checkpoints faster than rounds."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rescale.airflow.flink import last_checkpoint
from rescale.airflow.flink.cancel_mark import CancelMark
from rescale.airflow.live import cut_over
from rescale.airflow.live.cut_over import CutOver, WentBackError
from rescale.airflow.live.stopwatch import Stopwatch
from rescale.following.round_plan import LIGHT_BYTES
from rescale.runstate.follower.rounds import RoundKind
from rescale.text.errors import RescaleError, SnapshotError, StoreError

ROUND: Any = SimpleNamespace(bytes_read=10)


class Job:
    """A job that makes a checkpoint when it is asked for one, and `more` checkpoints during each last round."""

    def __init__(self, more: int = 0, size: int = 0, error: Exception | None = None) -> None:
        self.checkpoint, self.more, self.size, self.error, self.made = 0, more, size, error, 0
        self.target = "target"

    def take_source(self, *_: object) -> None:
        self.checkpoint += 1

    def plan_last(self) -> Any:
        plan = SimpleNamespace(bytes_compared=self.size, checkpoint_id=self.checkpoint)
        return SimpleNamespace(prepared=SimpleNamespace(plan=plan), kind=RoundKind.ROUND)

    def move_last(self, _: object) -> None:
        self.made += 1
        self.checkpoint += self.more
        if self.error is not None:
            raise self.error


class State(dict[str, object]):
    """The state of a task, which its tries have in common."""

    set = dict.__setitem__


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of(job: Job) -> CutOver:
        monkeypatch.setattr(cut_over, "open_flink", lambda _: nullcontext())
        monkeypatch.setattr(cut_over, "take_source", job.take_source)
        monkeypatch.setattr(last_checkpoint, "newest_checkpoint", lambda _: str(job.checkpoint))
        monkeypatch.setattr(cut_over, "complete_checkpoints", lambda _: [job.checkpoint])
        before: Any = SimpleNamespace(flink="", job_id="", directory="")
        follower: Any = job
        mover: Any = None
        return CutOver(before, follower, mover, CancelMark(State(), Mock(), "a"), "run", 60, None)

    return of


def test_last_round_is_made_before_the_cancel(cut: Any) -> None:
    job = Job()
    assert cut(job).prepare(ROUND)
    assert job.made == 1


@pytest.mark.parametrize("error", [None, SnapshotError("gone")])
def test_job_that_keeps_making_checkpoints_is_cancelled_before_its_last_round(
    cut: Any, error: Exception | None
) -> None:
    """Flink may have deleted the checkpoint of the round meanwhile."""
    job = Job(more=1, error=error)
    cutting = cut(job)
    assert [cutting.prepare(ROUND) for _ in range(5)] == [False] * 4 + [True]
    assert job.made == 4


def test_checkpoint_that_vanishes_during_planning_is_replaced_by_the_next(cut: Any) -> None:
    class Vanishing(Job):
        def plan_last(self) -> Any:
            planned = super().plan_last()
            if self.checkpoint > 1:
                return planned
            self.checkpoint += 1
            planned.prepared.plan.source = "the first"
            return SimpleNamespace(prepared=planned.prepared, kind=RoundKind.BASE, is_light=False, reason="gone")

    job = Vanishing()
    assert cut(job).prepare(ROUND)
    assert job.made == 1


def test_error_of_a_checkpoint_that_is_still_the_newest_is_raised(cut: Any) -> None:
    with pytest.raises(SnapshotError, match="gone"):
        cut(Job(error=SnapshotError("gone"))).prepare(ROUND)


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the snapshots from which the job was started again."""
    snapshots: list[str] = []

    def go_back(_: object, __: object, snapshot: str) -> dict[str, object]:
        snapshots.append(snapshot)
        return {"job": "b", "name": "clicks", "went_back": True}

    monkeypatch.setattr(cut_over, "end_pending_work", lambda *_: None)
    monkeypatch.setattr(cut_over, "restart_of", lambda *_: "chk-1")
    monkeypatch.setattr(cut_over, "leave_rounds", lambda _: None)
    monkeypatch.setattr(cut_over, "go_back", go_back)
    return snapshots


def failed(cutting: CutOver, monkeypatch: pytest.MonkeyPatch, error: RescaleError) -> tuple[WentBackError, Mock]:
    """Return the error of a cut-over whose attempts fail, and the attempts."""
    attempt = Mock(side_effect=error)
    monkeypatch.setattr(cutting, "_attempt", attempt)
    with pytest.raises(WentBackError, match="cut-over failed") as caught:
        cutting.complete(Stopwatch())
    return caught.value, attempt


@pytest.mark.parametrize("advice", [None, "make room"])
def test_error_of_a_cut_over_says_how_to_try_again(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str], advice: str | None
) -> None:
    error, _ = failed(cut(Job()), monkeypatch, SnapshotError("no space is left", advice=advice))
    assert error.what == "the cut-over failed, and the job runs again as it was: no space is left"
    assert restarts == ["chk-1"]
    assert error.advice is not None
    assert error.advice.startswith("make room; then trigger another run" if advice else "trigger another run")
    assert "the same target" in error.advice


def test_rounds_that_cannot_be_left_to_another_run_need_another_target(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str]
) -> None:
    monkeypatch.setattr(cut_over, "leave_rounds", Mock(side_effect=StoreError("the store is busy")))
    error, _ = failed(cut(Job()), monkeypatch, SnapshotError("gone"))
    assert restarts
    assert error.advice is not None
    assert "another target" in error.advice


def test_later_try_leaves_the_job_alone_that_an_earlier_one_has_started_again(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str]
) -> None:
    """By then another run may have cut this job over into the same target, and its result may be published there."""
    cutting = cut(Job())
    failed(cutting, monkeypatch, SnapshotError("gone"))
    _, attempt = failed(cutting, monkeypatch, SnapshotError("gone"))
    assert not attempt.called
    assert restarts == ["chk-1"]


def test_long_last_round_is_not_made(cut: Any) -> None:
    job = Job(size=LIGHT_BYTES + 1)
    assert not cut(job).prepare(ROUND)
    assert not job.made
    assert cut(job).prepare(None), "a last round without earlier rounds was refused"

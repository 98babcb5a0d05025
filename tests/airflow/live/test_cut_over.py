"""The last round is made before the cancel, unless the job makes checkpoints faster than rounds."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rescale.airflow.flink import job_record, last_checkpoint
from rescale.airflow.flink.job_record import JobRecord, Phase
from rescale.airflow.flink.questions import LostJobError
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.live import cut_over
from rescale.airflow.live.cut_over import CutOver, WentBackError
from rescale.airflow.live.stopwatch import Stopwatch
from rescale.airflow.steps.earlier_tasks import FOLLOW_TASK
from rescale.flink_rest.client import StopMode
from rescale.following.round_plan import LIGHT_BYTES
from rescale.runstate.follower.rounds import RoundKind
from rescale.text.errors import RequestError, RescaleError, SnapshotError, StoreError
from support.deferring import TaskState

ROUND: Any = SimpleNamespace(bytes_read=10)
ANSWERS = Mock()


class Job:
    """A job that makes a checkpoint when it is asked for one, and `more` further ones while a last round is made.

    It is the follower of the cut-over, too. `last_round_count` counts the last rounds that it was asked to make.
    """

    def __init__(self, more: int = 0, size: int = 0, error: Exception | None = None) -> None:
        self.checkpoint, self.more, self.size, self.error, self.last_round_count = 0, more, size, error, 0
        self.target, self.run_identity = "target", {"run": "a"}

    def take_source_checkpoint(self, *_: object) -> None:
        self.checkpoint += 1

    def plan_last(self) -> Any:
        plan = SimpleNamespace(bytes_compared=self.size, checkpoint_id=self.checkpoint)
        return SimpleNamespace(prepared=SimpleNamespace(plan=plan), kind=RoundKind.ROUND)

    def move_last(self, _: object) -> None:
        self.last_round_count += 1
        self.checkpoint += self.more
        if self.error is not None:
            raise self.error


def stopped(job_id: str) -> JobToRestart:
    jar = RunJar("http://flink", "clicks.jar")
    return JobToRestart("http://flink", job_id, "clicks", StopMode.CHECKPOINT, "/checkpoints", 2, jar)


def record_of(job_id: str) -> JobRecord:
    ti = Mock(task_id=FOLLOW_TASK, run_id="a-run")
    ti.get_task_states.return_value = {"a-run": {}}
    return JobRecord("a-dag/a-run", stopped(job_id), ti)


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all tasks of the run share a state."""
    state = TaskState()
    monkeypatch.setattr(job_record, "run_state", lambda _: state)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of(job: Job) -> CutOver:
        monkeypatch.setattr(cut_over, "open_flink", lambda _: nullcontext())
        monkeypatch.setattr(cut_over, "take_source_checkpoint", job.take_source_checkpoint)
        monkeypatch.setattr(last_checkpoint, "newest_checkpoint", lambda _: str(job.checkpoint))
        monkeypatch.setattr(cut_over, "newest_complete_checkpoint", lambda _: job.checkpoint)
        follower: Any = job
        mover: Any = None
        return CutOver(stopped("a"), follower, mover, record_of("a"), 60, None)

    return of


def test_last_round_is_made_before_the_cancel(cut: Any) -> None:
    job = Job()
    assert cut(job).prepare(ROUND, ANSWERS)
    assert job.last_round_count == 1


@pytest.mark.parametrize("error", [None, SnapshotError("gone")])
def test_job_that_keeps_making_checkpoints_is_cancelled_before_its_last_round(
    cut: Any, error: Exception | None
) -> None:
    """Flink may have deleted the checkpoint of the round meanwhile."""
    job = Job(more=1, error=error)
    cutting = cut(job)
    assert [cutting.prepare(ROUND, ANSWERS) for _ in range(5)] == [False] * 4 + [True]
    assert job.last_round_count == 4


def test_round_whose_checkpoint_is_replaced_during_the_wait_before_the_cancel_is_not_the_last(cut: Any) -> None:
    """The first two attempts wait for the time right before Flink makes a new answer, and the others do not."""
    job, answers = Job(), Mock()

    def wait() -> None:
        job.checkpoint += 1

    answers.wait_until_answer_expires_soon = Mock(side_effect=wait)
    cutting = cut(job)
    assert [cutting.prepare(ROUND, answers) for _ in range(3)] == [False, False, True]
    assert job.last_round_count == 3


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
    assert cut(job).prepare(ROUND, ANSWERS)
    assert job.last_round_count == 1


def test_new_base_comes_first_if_the_last_round_cannot_continue_the_rounds(cut: Any) -> None:
    """Flink has rescaled the running job since the round, for example (`AdaptiveScheduler`)."""

    class Rescaled(Job):
        def plan_last(self) -> Any:
            planned = super().plan_last()
            planned.prepared.plan.source = "chk-1"
            return SimpleNamespace(prepared=planned.prepared, kind=RoundKind.BASE, is_light=False, reason="rescaled")

    job = Rescaled()
    cutting = cut(job)
    assert [cutting.prepare(ROUND, ANSWERS) for _ in range(4)] == [False] * 4
    for refused_cut_over, before in ((cutting, ROUND), (cut(job), None)):
        with pytest.raises(RequestError, match="to move all state would take too long"):
            refused_cut_over.prepare(before, ANSWERS)
    assert not job.last_round_count


def test_error_of_a_checkpoint_that_is_still_the_newest_is_raised(cut: Any) -> None:
    with pytest.raises(SnapshotError, match="gone"):
        cut(Job(error=SnapshotError("gone"))).prepare(ROUND, ANSWERS)


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the snapshots from which the job was started again."""
    snapshots: list[str] = []

    def go_back(_: object, __: object, snapshot: str) -> dict[str, object]:
        snapshots.append(snapshot)
        return {"job": "b", "name": "clicks", "went_back": True}

    monkeypatch.setattr(cut_over, "end_pending_work", lambda *_: None)
    monkeypatch.setattr(cut_over, "checkpoint_for_restart", lambda *_: "chk-1")
    monkeypatch.setattr(cut_over, "leave_rounds", lambda *_: "trigger another run")
    monkeypatch.setattr(cut_over, "go_back", go_back)
    return snapshots


def failed_cut_over(
    cutting: CutOver, monkeypatch: pytest.MonkeyPatch, error: RescaleError
) -> tuple[WentBackError, Mock]:
    """Return the error of a cut-over whose attempts all fail, and the mock of the attempts."""
    attempt = Mock(side_effect=error)
    monkeypatch.setattr(cutting, "_publish_and_start", attempt)
    with pytest.raises(WentBackError, match=r"cut-over (has already )?failed") as caught:
        cutting.complete(Stopwatch())
    return caught.value, attempt


@pytest.mark.parametrize("advice", [None, "make room"])
def test_error_of_a_cut_over_says_how_to_try_again(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str], advice: str | None
) -> None:
    error, _ = failed_cut_over(cut(Job()), monkeypatch, SnapshotError("no space is left", advice=advice))
    assert error.what == "the cut-over failed, and the job runs again with its old shape: no space is left"
    assert restarts == ["chk-1"]
    assert error.advice == ("make room; then trigger another run" if advice else "trigger another run")


def test_later_try_leaves_the_job_alone_that_an_earlier_one_has_started_again(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str]
) -> None:
    """By then another run may have cut this job over into the same target, and its result may be published there."""
    cutting = cut(Job())
    failed_cut_over(cutting, monkeypatch, SnapshotError("gone"))
    _, attempt = failed_cut_over(cutting, monkeypatch, SnapshotError("gone"))
    assert not attempt.called
    assert restarts == ["chk-1"]


@pytest.mark.parametrize(("returned", "is_started_again"), [("a", True), ("b", False)])
def test_try_after_the_task_that_goes_back_leaves_the_job_alone(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str], returned: str, is_started_again: bool
) -> None:
    """The task that goes back has started a job again, perhaps that of an earlier pass of the run."""
    record_of(returned).note(Phase.WENT_BACK)
    _, attempt = failed_cut_over(cut(Job()), monkeypatch, SnapshotError("gone"))
    assert attempt.called is not is_started_again
    assert restarts == ([] if is_started_again else ["chk-1"])


def test_job_that_still_runs_does_not_count_as_started_again(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str]
) -> None:
    """After a failover of the JobManager, a later try may cancel the job again, and must complete the cut-over then."""
    monkeypatch.setattr(cut_over, "go_back", lambda *_: {"job": "a", "name": "clicks", "went_back": False})
    cutting = cut(Job())
    failed_cut_over(cutting, monkeypatch, SnapshotError("gone"))
    assert not restarts
    assert cutting.record.phase is not Phase.WENT_BACK


def test_new_job_whose_start_comes_through_late_is_ended(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str]
) -> None:
    """Flink did not answer the request in time, and carried it out while the old job was started again."""
    ended: list[str] = []

    def end_pending_work(*_: object) -> dict[str, object] | None:
        if not restarts or ended:
            return None
        ended.append("the new job")
        return {"job": "new"}

    monkeypatch.setattr(cut_over, "end_pending_work", end_pending_work)
    failed_cut_over(cut(Job()), monkeypatch, SnapshotError("gone"))
    assert restarts == ["chk-1"]
    assert ended


def test_new_job_beside_the_old_one_is_ended(cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str]) -> None:
    """The task that goes back has started the old job since this task looked for it."""
    start: Any = SimpleNamespace(command="flink run", parallelism=2, _replace=lambda **_: start)
    monkeypatch.setattr(cut_over, "published_plan", lambda *_: SimpleNamespace(start=start, checkpoint_id=1))
    monkeypatch.setattr(cut_over, "first_fresh_request_time", lambda *_: 0.0)
    monkeypatch.setattr(cut_over, "refuse_later_snapshot", lambda *_: None)
    monkeypatch.setattr(cut_over, "hand_job_over", lambda *_: {"job": "new"})
    monkeypatch.setattr(cut_over, "refuse_running_job", Mock(side_effect=RequestError("the job still runs")))
    with pytest.raises(WentBackError, match="the job still runs"):
        cut(Job()).complete(Stopwatch())
    assert restarts == ["chk-1"]


def test_job_that_is_lost_while_it_starts_is_started_again_at_once(cut: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JobManager was replaced. The job must not stand still until the cut-over gives up."""
    start: Any = SimpleNamespace(command="flink run", parallelism=2, _replace=lambda **_: start)
    plan = SimpleNamespace(start=start, checkpoint_id=1)
    monkeypatch.setattr(cut_over, "published_plan", lambda *_: plan)
    monkeypatch.setattr(cut_over, "first_fresh_request_time", lambda *_: 0.0)
    monkeypatch.setattr(cut_over, "refuse_later_snapshot", lambda *_: None)
    monkeypatch.setattr(cut_over, "refuse_running_job", lambda *_: None)
    ask = Mock(side_effect=[StoreError("Flink does not answer"), LostJobError("lost"), {"job": "new"}])
    starts = Mock(return_value=Mock(ask=ask, waits_for="the job"))
    monkeypatch.setattr(cut_over, "hand_job_over", starts)
    stopwatch = Stopwatch()
    assert cut(Job()).complete(stopwatch) == (plan, {"job": "new"})
    assert starts.call_count == 2
    assert stopwatch.elapsed_seconds < 10


@pytest.mark.parametrize("is_published", [True, False])
def test_job_that_was_redeployed_is_only_waited_for_or_taken_back(
    cut: Any, monkeypatch: pytest.MonkeyPatch, restarts: list[str], is_published: bool
) -> None:
    """A killed try has redeployed the job, from the result or, going back, from its checkpoint. The old job is gone."""
    start: Any = SimpleNamespace(command="flink run", parallelism=2, _replace=lambda **_: start)
    plan = SimpleNamespace(start=start) if is_published else None
    monkeypatch.setattr(JobToRestart, "is_replaced", True)
    monkeypatch.setattr(cut_over, "published_plan", lambda *_: plan)
    monkeypatch.setattr(cut_over, "hand_job_over", lambda *_: {"deployment": "new"})
    monkeypatch.setattr(cut_over, "refuse_running_job", lambda *_: None)
    cutting: CutOver = cut(Job())
    monkeypatch.setattr(cut_over, "open_flink", Mock(side_effect=AssertionError("Flink was asked")))
    if is_published:
        assert cutting.complete(Stopwatch()) == (plan, {"deployment": "new"})
        assert cutting.record.phase is Phase.STARTED
        return
    with pytest.raises(WentBackError, match="redeployed before the result was published"):
        cutting.complete(Stopwatch())
    assert restarts == ["chk-1"]


@pytest.fixture
def handed_over(cut: Any, monkeypatch: pytest.MonkeyPatch) -> CutOver:
    """Return the cut-over of a cleared task, of which an earlier try has started the job from its result."""
    monkeypatch.setattr(cut_over, "published_plan", lambda *_: "the plan")
    cutting: CutOver = cut(Job())
    monkeypatch.setattr(cutting, "_publish_and_start", Mock(side_effect=AssertionError("another start")))
    cutting.record.note_start()
    return cutting


def test_job_that_was_handed_over_is_only_looked_for(
    handed_over: CutOver, monkeypatch: pytest.MonkeyPatch, restarts: list[str]
) -> None:
    question = Mock(ask=lambda: {"job": "new"})
    monkeypatch.setattr(job_record, "question_for_started_job", lambda *_: question)
    assert handed_over.complete(Stopwatch()) == ("the plan", {"job": "new"})
    monkeypatch.setattr(cut_over, "published_plan", lambda *_: None)
    with pytest.raises(RequestError, match="its result no longer exists"):
        handed_over.complete(Stopwatch())
    assert not restarts


def test_job_that_was_handed_over_and_has_ended_is_not_started_once_more(
    handed_over: CutOver, monkeypatch: pytest.MonkeyPatch, restarts: list[str]
) -> None:
    """Another run may have taken the job over: neither the result nor the old checkpoint is its state any more.

    The earlier try may have been killed before it had removed the rounds, which `discard` leaves beside the result.
    """
    monkeypatch.setattr(job_record, "question_for_started_job", lambda *_: None)
    removed: list[str] = []
    monkeypatch.setattr(cut_over, "remove_follower", removed.append)
    with pytest.raises(RequestError, match="has already started the job from its result, and that job has ended"):
        handed_over.complete(Stopwatch())
    assert not restarts
    assert handed_over.record.phase is Phase.STARTED
    assert removed == ["target"]
    monkeypatch.setattr(cut_over, "published_plan", lambda *_: None)  # the target is another run's by now
    with pytest.raises(RequestError, match="that job has ended"):
        handed_over.complete(Stopwatch())
    assert removed == ["target"]


def test_long_last_round_is_not_made(cut: Any) -> None:
    job = Job(size=LIGHT_BYTES + 1)
    assert not cut(job).prepare(ROUND, ANSWERS)
    assert not job.last_round_count
    assert cut(job).prepare(None, ANSWERS), "a last round without earlier rounds was refused"

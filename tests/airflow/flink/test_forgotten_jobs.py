"""A run resumes the operations that it has begun, although Flink has forgotten earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import msgspec
import pytest
from airflow.sdk import Context

from rescale.airflow.flink import stopping
from rescale.airflow.flink.checkpoint_stop import checkpoint_for_restart
from rescale.airflow.flink.ids import derived_ids
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.questions import JobEndQuestion, JobStartQuestion, SavepointQuestion
from rescale.airflow.flink.stopping import JobToRestart, begin_savepoint, end_pending_work, go_back, hand_job_over
from rescale.airflow.hand_overs import Print, RunJar
from rescale.airflow.job.job_operators import GoBack, TakeSavepoint
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink.start import Start
from rescale.flink_rest.client import Flink, StopMode
from rescale.text.errors import RequestError, StoreError
from support.deferring import TaskState, run_operator

RUN = "rescale_job/manual"
BEFORE = JobToRestart(
    "http://flink", "1" * 32, "clicks", StopMode.STOP, "s3://b/savepoints", 2, RunJar("http://flink", "clicks.jar")
)
RUNS_ON = msgspec.structs.replace(BEFORE, taking=StopMode.RUN_ON, hand_over=Print())
START = Start("s3://b/result", 4, None)

_FAILED = {"operation": {"failure-cause": {"stack-trace": "timeout"}}}
_GOES_ON = {"status": {"id": "IN_PROGRESS"}}


class Cluster:
    """Jobs by id with their states, and savepoints by trigger id. Flink has forgotten all others."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self.savepoints: dict[str, dict[str, Any]] = {}
        self.latest: str | None = None
        self.asked_for: list[str] = []
        self.cancelled: list[str] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        last = path.rpartition("/")[2]
        if request.method == "PATCH":
            self.jobs[last] = "CANCELED"
            self.cancelled.append(last)
            return httpx.Response(202, json={})
        if request.method == "POST":
            self.asked_for.append(path)
            return httpx.Response(202, json={"request-id": "", "jobid": ""})
        if "/savepoints/" in path:
            return self._known(self.savepoints.get(last))
        if path.endswith("/jobs/overview"):
            tasks = {"running": 2, "total": 2}
            lines = [
                {"jid": job_id, "name": "clicks", "state": state, "tasks": tasks} for job_id, state in self.jobs.items()
            ]
            return httpx.Response(200, json={"jobs": lines})
        if path.endswith("/checkpoints"):
            latest = self.latest and {"external_path": self.latest}
            return httpx.Response(200, json={"latest": {"savepoint": latest}})
        if path.endswith("/jars"):
            jar = {"id": "1_clicks.jar", "name": "clicks.jar", "uploaded": 1, "entry": []}
            return httpx.Response(200, json={"files": [jar]})
        state = self.jobs.get(last)
        vertex = {"id": "0" * 32, "name": "visits", "parallelism": 2, "maxParallelism": 128, "tasks": {"RUNNING": 2}}
        return self._known(state and {"jid": last, "name": "clicks", "state": state, "vertices": [vertex]})

    @staticmethod
    def _known(document: Any) -> httpx.Response:
        return httpx.Response(200, json=document) if document else httpx.Response(404, json={"errors": ["not found"]})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    def opened(_: str) -> Flink:
        return Flink("http://flink", transport=httpx.MockTransport(cluster.answer))

    for module in ("stopping", "starting", "questions"):
        monkeypatch.setattr(f"rescale.airflow.flink.{module}.open_flink", opened)
    return cluster


def test_job_that_the_overview_leaves_out_has_not_ended(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise another job would be started beside it."""
    flink = Flink("http://flink", transport=httpx.MockTransport(cluster.answer))
    assert flink.job_overview(BEFORE.job_id) is None
    cluster.jobs[BEFORE.job_id] = "RUNNING"
    assert flink.job_overview(BEFORE.job_id) is not None
    monkeypatch.setattr(Flink, "jobs", lambda _: [])
    with pytest.raises(StoreError, match="overview leaves the job out"):
        flink.job_overview(BEFORE.job_id)


def test_savepoint_in_progress_is_waited_for_after_a_forgotten_failure(cluster: Cluster) -> None:
    """Without the wait, the task would take the job for one that was not stopped, although it is about to end."""
    _, second = islice(derived_ids("savepoint", RUN), 2)
    cluster.jobs[BEFORE.job_id] = "RUNNING"
    cluster.savepoints[second] = _GOES_ON
    cleared, question = end_pending_work(BEFORE, RUN), begin_savepoint(BEFORE, RUN)
    assert isinstance(cleared, SavepointQuestion)
    assert isinstance(question, SavepointQuestion)
    assert cleared.trigger_id == question.trigger_id == second
    assert not cluster.asked_for


def test_next_savepoint_is_triggered_after_a_failed_one(cluster: Cluster) -> None:
    first, second = islice(derived_ids("savepoint", RUN), 2)
    cluster.jobs[BEFORE.job_id] = "RUNNING"
    cluster.savepoints[first] = _FAILED
    question = begin_savepoint(BEFORE, RUN)
    assert isinstance(question, SavepointQuestion)
    assert question.trigger_id == second
    assert len(cluster.asked_for) == 1


def test_job_is_not_started_twice_if_an_earlier_attempt_was_forgotten(cluster: Cluster) -> None:
    """The first attempt to go back failed. Somebody mends the cause, and clears the other failed tasks hours later."""
    _, second = islice(derived_ids(*stopping._restart_seed(RUN, BEFORE)), 2)
    cluster.jobs[second] = "RUNNING"
    with pytest.raises(RequestError, match="would do the same work twice"):
        hand_job_over(BEFORE.hand_over, START, RUN, BEFORE)
    back = go_back(BEFORE, RUN, "s3://b/savepoint")
    assert isinstance(back, JobStartQuestion)
    assert back.job_id == second
    assert not cluster.asked_for


def test_job_that_starts_late_is_cancelled_when_the_run_goes_back(cluster: Cluster) -> None:
    """The request to start the job timed out while its `main` was running, so there was no job to cancel yet."""
    late, back = (
        next(derived_ids(*stopping._seed(RUN, BEFORE))),
        next(derived_ids(*stopping._restart_seed(RUN, BEFORE))),
    )
    assert end_pending_work(BEFORE, RUN) is None
    question = go_back(BEFORE, RUN, "s3://b/savepoint")
    assert isinstance(question, JobStartQuestion)
    cluster.jobs = {back: "RUNNING", late: "RUNNING"}
    assert question.ask() is None
    assert cluster.cancelled == [late]
    answer = question.ask()
    assert answer is not None
    assert answer["job"] == back
    assert cluster.cancelled == [late]


def test_job_that_is_lost_while_it_starts_is_started_again(cluster: Cluster) -> None:
    """The JobManager was replaced, without high availability. No job would run if the task did not try again."""
    question = go_back(BEFORE, RUN, "s3://b/savepoint")
    assert isinstance(question, JobStartQuestion)
    with pytest.raises(StoreError, match="Flink no longer knows the job"):
        question.ask()
    assert go_back(BEFORE, RUN, "s3://b/savepoint") == question
    assert cluster.asked_for == ["/jars/1_clicks.jar/run"] * 2


def test_forgotten_savepoint_of_a_running_job_is_found_in_its_statistics(cluster: Cluster) -> None:
    cluster.jobs[BEFORE.job_id] = "RUNNING"
    question = SavepointQuestion(
        "http://flink", BEFORE.job_id, "2" * 32, RUNS_ON.savepoint_directory(RUN), StopMode.RUN_ON
    )
    with pytest.raises(StoreError, match="no longer knows the savepoint"):
        question.ask()
    cluster.latest = f"{RUNS_ON.savepoint_directory(RUN)}/savepoint-1"
    assert question.ask() == {"savepoint": cluster.latest, "job": BEFORE.job_id, "state": "RUNNING"}


def test_going_back_to_a_deployment_does_not_ask_flink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The FlinkDeployment was redeployed, and its new JobManager may never answer."""
    (tmp_path / "chk-8").mkdir()
    (tmp_path / "chk-8" / "_metadata").touch()
    monkeypatch.setattr(JobToRestart, "is_replaced", True)
    before = msgspec.structs.replace(BEFORE, taking=StopMode.CHECKPOINT, directory=str(tmp_path))
    assert checkpoint_for_restart(before, 8) == f"{tmp_path}/chk-8"


def test_checkpoint_is_looked_for_again_if_the_job_ended_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the job is being cancelled, nobody knows its last checkpoint."""

    class Cancelled(GoBack):
        def _snapshot_to_start_from(self, context: Context, old_job: JobToRestart) -> str | None:  # noqa: ARG002
            ended = cluster.jobs[old_job.job_id] == "CANCELED"
            cluster.jobs[old_job.job_id] = "CANCELED"
            return "s3://b/chk-8" if ended else None

    cluster.jobs[BEFORE.job_id] = "CANCELLING"
    before = msgspec.structs.replace(BEFORE, taking=StopMode.CHECKPOINT)
    task = Cancelled(task_id="back", old_job_document=msgspec.to_builtins(before))
    sources: list[str | None] = []
    monkeypatch.setattr(
        "rescale.airflow.job.job_operators.go_back", lambda *arguments: sources.append(arguments[2]) or {}
    )
    monkeypatch.setattr(Cancelled, "_finish", lambda _, answer: answer)
    run_operator(task, "manual")
    assert sources == ["s3://b/chk-8"]


RUNS = {"job": "2" * 32, "name": "clicks", "parallelism": 2, "restored_from": "s3://b/savepoint-1"}
TAKES = msgspec.to_builtins(BEFORE)
TAKEN = {"savepoint": "s3://b/savepoint-1", "job": BEFORE.job_id}


def test_new_job_whose_start_comes_through_late_is_ended(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink did not answer the request in time, and carried it out while the old job was started again."""
    new = next(derived_ids(*stopping._seed("a-dag/manual", BEFORE)))

    def go_back(*_: object) -> Any:
        cluster.jobs[new] = "RUNNING"
        return RUNS

    monkeypatch.setattr("rescale.airflow.job.job_operators.go_back", go_back)
    task = GoBack(task_id="back", old_job_document=msgspec.to_builtins(BEFORE), take_output=TAKEN)
    assert run_operator(task, "manual") == {**RUNS, "in_place_of": BEFORE.job_id}
    assert cluster.jobs[new] == "CANCELED"


def test_going_back_waits_for_hours_for_a_savepoint_that_stops_the_job(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that takes the savepoint gives up after an hour. If `go_back` did, too, no task would start the job."""
    trigger_id, location = next(derived_ids("savepoint", "a-dag/manual")), "s3://b/savepoints/savepoint-1"
    cluster.jobs[BEFORE.job_id], cluster.savepoints[trigger_id] = "RUNNING", _GOES_ON
    half_hours = iter(range(0, 24 * 3600, 1800))
    monkeypatch.setattr("rescale.airflow.flink.triggers.time", Mock(monotonic=lambda: next(half_hours)))
    ask = SavepointQuestion.ask

    def complete_after_some_hours(question: SavepointQuestion) -> Any:
        if next(half_hours) > 5 * 3600:
            cluster.jobs[BEFORE.job_id], cluster.savepoints[trigger_id] = (
                "FINISHED",
                {"operation": {"location": location}},
            )
        return ask(question)

    monkeypatch.setattr(SavepointQuestion, "ask", complete_after_some_hours)
    sources: list[object] = []
    monkeypatch.setattr(
        "rescale.airflow.job.job_operators.go_back", lambda *arguments: sources.append(arguments[2]) or RUNS
    )
    run_operator(GoBack(task_id="back", old_job_document=msgspec.to_builtins(BEFORE)), "manual")
    assert sources == [None], "Flink itself knows the savepoint"


def test_task_that_has_ended_the_new_job_starts_the_old_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hand-over whose task was ended by hand may still report that the new job runs, before its process ends."""
    cluster.jobs[next(derived_ids(*stopping._seed("a-dag/manual", BEFORE)))] = "RUNNING"
    handed_over = [False, True]
    monkeypatch.setattr("rescale.airflow.job.job_operators.was_handed_over", lambda *_: handed_over.pop(0))
    monkeypatch.setattr("rescale.airflow.job.job_operators.go_back", lambda *_: RUNS)
    questions: list[object] = []
    ask = JobEndQuestion.ask

    def not_yet(question: JobEndQuestion) -> Any:
        questions.append(question)
        return None if len(questions) == 1 else ask(question)

    monkeypatch.setattr(JobEndQuestion, "ask", not_yet)
    task = GoBack(task_id="back", old_job_document=msgspec.to_builtins(BEFORE), take_output=TAKEN)
    assert run_operator(task, "manual")["job"] == RUNS["job"]
    assert handed_over == [True]


def test_job_that_was_started_again_is_not_started_once_more(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run may have handed that job over since, and a second start would run beside its new job."""
    restarted_id, state = next(derived_ids(*stopping._restart_seed("a-dag/manual", BEFORE))), TaskState()
    starts: list[object] = []
    monkeypatch.setattr(
        "rescale.airflow.job.job_operators.go_back", lambda *arguments: starts.append(arguments) or RUNS
    )
    task = GoBack(task_id="back", old_job_document=msgspec.to_builtins(BEFORE), take_output=TAKEN)
    run_operator(task, "manual", state)
    cluster.jobs[restarted_id] = "RUNNING"
    assert run_operator(task, "manual", state)["job"] == restarted_id, "a retry finds it"
    for ended in ("CANCELED", None):  # Flink forgets it
        cluster.jobs.pop(restarted_id)
        if ended:
            cluster.jobs[restarted_id] = ended
        with pytest.raises(TaskEnded, match="has started the job again with its old shape, and that job has ended"):
            run_operator(task, "manual", state)
    assert len(starts) == 1


def hand_over(state: TaskState, run_id: str = "manual") -> Any:
    task = HandOverJob(task_id="hand_over", start=START._asdict(), old_job_document=msgspec.to_builtins(BEFORE))
    return run_operator(task, run_id, state)


def test_job_that_was_handed_over_is_not_started_once_more(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody clears the task of an old run; another run may have taken the job over since."""
    new, state = next(derived_ids(*stopping._seed("a-dag/manual", BEFORE))), TaskState()
    starts: list[object] = []
    monkeypatch.setattr(
        "rescale.airflow.flink.operators.hand_job_over", lambda *arguments: starts.append(arguments) or RUNS
    )
    assert hand_over(state)["job"] == RUNS["job"]
    cluster.jobs[new] = "RUNNING"
    assert hand_over(state)["job"] == new, "it is found"
    for ended in ("CANCELED", None):  # Flink forgets it
        cluster.jobs.pop(new)
        if ended:
            cluster.jobs[new] = ended
        with pytest.raises(TaskEnded, match="has already started the job from its result, and that job has ended"):
            hand_over(state)
    assert len(starts) == 1
    assert not cluster.asked_for


def test_run_that_went_back_does_not_hand_the_job_over(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """By then another run may have stopped the job that this run has started again, to hand it over."""
    monkeypatch.setattr("rescale.airflow.job.job_operators.go_back", lambda *_: RUNS)
    state = TaskState()
    run_operator(
        GoBack(task_id="back", old_job_document=msgspec.to_builtins(BEFORE), take_output=TAKEN), "manual", state
    )
    for task in (
        hand_over,
        lambda state: run_operator(TakeSavepoint(task_id="take", old_job_document=TAKES), "manual", state),
    ):
        with pytest.raises(TaskEnded, match="this run has started the job again with its old shape"):
            task(state)
    assert not cluster.asked_for


def test_task_that_goes_back_leaves_a_job_alone_that_was_handed_over(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that hands the job over was cleared, and has no output any more."""
    monkeypatch.setattr("rescale.airflow.flink.operators.hand_job_over", lambda *_: RUNS)
    monkeypatch.setattr("rescale.airflow.job.job_operators.skip_task", Mock(side_effect=KeyboardInterrupt))
    state = TaskState()
    hand_over(state)
    with pytest.raises(KeyboardInterrupt):
        run_operator(
            GoBack(task_id="back", old_job_document=msgspec.to_builtins(BEFORE), take_output=TAKEN), "manual", state
        )
    assert not cluster.asked_for
    assert not cluster.cancelled


def test_job_that_the_run_has_not_stopped_is_not_started_by_it(cluster: Cluster) -> None:
    """Another run has cancelled the job, and is about to start it in its new shape."""
    cluster.jobs[BEFORE.job_id] = "CANCELED"
    before = msgspec.to_builtins(msgspec.structs.replace(BEFORE, taking=StopMode.CHECKPOINT))
    state = TaskState()
    for _ in range(2):
        with pytest.raises(TaskEnded, match="the job has ended, and Flink knows no savepoint of this run"):
            run_operator(GoBack(task_id="back", old_job_document=before), "manual", state)
    assert not cluster.asked_for
    assert not state


def test_job_that_somebody_else_has_started_is_not_started_beside_it(cluster: Cluster) -> None:
    """While a run moves the state, or goes back, a user may start the job by hand, as the log says."""
    cluster.jobs = {"8" * 32: "CANCELED", "9" * 32: "RUNNING"}
    before = msgspec.structs.replace(BEFORE, is_only_one=True)
    starts: list[Callable[[JobToRestart], object]] = [
        lambda before: go_back(before, RUN, "s3://b/savepoint"),
        lambda before: hand_job_over(before.hand_over, START, RUN, before),
    ]
    for start in starts:
        with pytest.raises(RequestError, match="somebody else has started a job of this name") as caught:
            start(before)
        assert "9" * 32 in str(caught.value.found)
    assert not cluster.asked_for
    for start in starts:
        assert isinstance(start(BEFORE), JobStartQuestion), "the other job of this name may be another one"


def test_start_command_is_printed_before_flink_is_asked(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def unreachable(_: str) -> Flink:
        raise StoreError("Flink cannot be reached")

    monkeypatch.setattr(stopping, "open_flink", unreachable)
    task = GoBack(task_id="back", old_job_document=msgspec.to_builtins(BEFORE), take_output=TAKEN)
    with pytest.raises(TaskEnded):
        run_operator(task, "manual")
    assert "flink run -s s3://b/savepoint-1 -p 2" in capfd.readouterr().out

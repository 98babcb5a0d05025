"""All tasks of a run, and all tries of them, know what the run has done to its job."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from rescale.airflow.flink import job_record, stopping
from rescale.airflow.flink.ids import derived_ids
from rescale.airflow.flink.job_record import JobRecord, Phase, recorded_job, refuse_handed_over, stopped_job
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import PatchDeployment, RunJar
from rescale.flink_rest.client import StopMode
from rescale.flink_rest.running_job import JobOverview
from rescale.text.errors import RequestError, RescaleError, StoreError
from support.deferring import TaskState

RUN = "a-dag/a-run"
JAR = RunJar("http://flink", "clicks.jar")
BEFORE = JobToRestart("http://flink", "1" * 32, "clicks", StopMode.CHECKPOINT, "/job", 2, JAR, is_only_one=True)


@pytest.fixture(autouse=True)
def states(monkeypatch: pytest.MonkeyPatch) -> dict[str, TaskState]:
    """Return the states of runs, by their names."""
    states: dict[str, TaskState] = {}
    monkeypatch.setattr(job_record, "run_state", lambda run: states.setdefault(run, TaskState()))
    return states


def record(task_id: str = "follow", state: str = "running", run: str = RUN, before: JobToRestart = BEFORE) -> JobRecord:
    ti: Any = SimpleNamespace(dag_id="a-dag", run_id="a-run", task_id=task_id)
    ti.get_task_states = lambda **_: {"a-run": {task_id: state, "another": "running"}}
    return JobRecord(run, before, ti)


def test_other_tasks_and_later_tries_read_the_record_and_other_runs_do_not() -> None:
    """An XCom is not enough: Airflow removes a task's XComs when a try starts, and the try may be killed right then."""
    assert recorded_job(RUN) is None
    record().note_stop(7)
    for other in (record(), record("go_back")):
        assert (other.phase, other.checkpoint_number) == (Phase.STOPS, 7)
    assert recorded_job(RUN) == job_record.RecordedJob(Phase.STOPS, BEFORE, 7)
    assert record(run="a-dag/another").phase is None
    assert record(before=msgspec.structs.replace(BEFORE, job_id="2" * 32)).phase is None


def test_record_is_of_one_start_of_a_deployment_whose_next_job_has_the_same_id() -> None:
    """If all tasks of a run that has gone back are cleared, the run stops the job that it has started again."""
    record().note_stop(7)
    record().note(Phase.WENT_BACK)
    restarted = msgspec.structs.replace(BEFORE, nonce=2)
    assert record(before=restarted).phase is None
    record(before=restarted).note_stop(9)
    assert recorded_job(RUN) == job_record.RecordedJob(Phase.STOPS, restarted, 9)


@pytest.mark.parametrize("nonce", [4, 5])
def test_job_that_somebody_else_has_redeployed_is_not_stopped(nonce: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run would take back only what it has redeployed itself, so nothing would start the job again."""
    before = msgspec.structs.replace(BEFORE, hand_over=PatchDeployment("flink", "clicks"), nonce=4)
    monkeypatch.setattr(stopping, "read_deployment", lambda _: SimpleNamespace(nonce=nonce))
    if nonce == before.nonce:
        record(before=before).note_stop(7)
        return
    with pytest.raises(RequestError, match="the job was redeployed"):
        record(before=before).note_stop(7)
    assert recorded_job(RUN) is None


def test_checkpoint_is_kept_until_another_is_known() -> None:
    record().note_stop(7)
    record().note_stop(None)
    assert record().checkpoint_number == 7
    record().note_checkpoint(8)
    record("go_back").note(Phase.GOES_BACK)
    assert (record().phase, record().checkpoint_number) == (Phase.GOES_BACK, 8)


def test_later_try_that_resumes_does_not_forget_that_the_job_was_handed_over() -> None:
    record().note_stop(7)
    record().note_start()
    record().note_stop(7)
    record().note_checkpoint(8)
    assert record().phase is Phase.STARTED


def test_run_that_has_handed_its_job_over_looks_at_it_no_more() -> None:
    refuse_handed_over(RUN)
    for phase in (Phase.STOPS, Phase.GOES_BACK, Phase.WENT_BACK):
        record().note(phase)
        refuse_handed_over(RUN)
    record().note_start()
    refuse_handed_over("a-dag/another")
    with pytest.raises(RequestError, match="has already handed its job over"):
        refuse_handed_over(RUN)


@pytest.mark.parametrize(
    ("state", "acts"), [("running", True), ("restarting", True), ("failed", False), ("success", False)]
)
@pytest.mark.parametrize("act", [JobRecord.note_stop, JobRecord.note_start])
def test_task_that_somebody_has_ended_does_nothing_more_to_the_job(state: str, acts: bool, act: Any) -> None:
    """Airflow ends the task's process seconds later. By then the task that goes back may have found the job running."""
    if acts:
        act(record(state=state))
        assert record().phase is not None
        return
    with pytest.raises(RescaleError, match="somebody has ended this task"):
        act(record(state=state))
    assert record().phase is None


def test_job_that_went_back_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    question = Mock()
    monkeypatch.setattr(job_record, "question_for_started_job", lambda *_: question)
    assert record().question_if_started("/result") is None
    record().note_start()
    assert record().question_if_started("/result") is question
    record().note(Phase.WENT_BACK)
    with pytest.raises(RequestError, match="this run has started the job again with its old shape"):
        record().question_if_started("/result")


ALIVE = JobOverview("2" * 32, "clicks", "RUNNING")
OLD, ENDED = JobOverview(BEFORE.job_id, "clicks", "RUNNING"), JobOverview(BEFORE.job_id, "clicks", "CANCELED")


@pytest.mark.parametrize("phase", [None, *Phase])
@pytest.mark.parametrize("lines", [[], [ENDED], [OLD], [ENDED, ALIVE], [JobOverview("2" * 32, "other", "RUNNING")]])
def test_run_goes_on_with_the_job_that_it_has_stopped_unless_a_job_of_this_name_runs(
    phase: Phase | None, lines: list[JobOverview], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimpleNamespace(address="", jobs=lambda: lines)
    cluster.job_overview = lambda job_id: next((line for line in lines if line.job_id == job_id), None)
    for module in (job_record, stopping):
        monkeypatch.setattr(module, "open_flink", lambda _: nullcontext(cluster))
    if phase is not None:
        record().note(phase)
    goes_on = phase in (Phase.STOPS, Phase.GOES_BACK) and OLD not in lines and ALIVE not in lines
    assert stopped_job(RUN) == (BEFORE if goes_on else None)


@pytest.mark.parametrize("seed", [stopping._seed, stopping._restart_seed])
def test_run_goes_on_though_the_job_that_it_has_started_does_not_run_with_all_tasks_yet(
    seed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = JobOverview(next(derived_ids(*seed(RUN, BEFORE))), "clicks", "RUNNING")
    cluster = SimpleNamespace(address="", jobs=lambda: [starting], job_overview=lambda _: None)
    for module in (job_record, stopping):
        monkeypatch.setattr(module, "open_flink", lambda _: nullcontext(cluster))
    record().note_stop()
    assert stopped_job(RUN) == BEFORE


def test_run_goes_on_though_flink_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the first task failed, nothing would start the job again: the task that goes back needs its output."""
    monkeypatch.setattr(job_record, "open_flink", Mock(side_effect=StoreError("Flink cannot be reached")))
    record().note_stop()
    assert stopped_job(RUN) == BEFORE

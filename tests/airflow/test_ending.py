"""The state of a run follows from its target and its failed tasks."""

from __future__ import annotations

import logging
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import DAG

from rescale.airflow import ending
from rescale.airflow.ending import end_task
from rescale.airflow.flink import job_record, starting
from rescale.airflow.flink.ids import derived_ids
from rescale.airflow.flink.job_record import JobRecord, Phase
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.forms.form_advice import DISCARD_TITLE
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.job_tasks import job_end_task
from rescale.airflow.steps.earlier_tasks import (
    ASK_TASK,
    FOLLOW_TASK,
    FOLLOWED_TARGET_KEY,
    HAND_OVER_TASK,
    LOOK_TASK,
    PLAN_ANSWER_KEY,
    PLAN_TASK,
    PUBLISH_TASK,
)
from rescale.airflow.steps.rescale_task import NOTHING_TO_DO_KEY
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink_rest.client import StopMode
from rescale.plan.plan import Plan
from rescale.runstate.approval import decide_cut_over
from rescale.runstate.claim import claim
from rescale.runstate.follower.rounds import FollowedJob, begin_following, round_target
from rescale.runstate.places import Places, pins_place, places_of
from rescale.storage.locations import join
from rescale.storage.store import open_store
from rescale.text.errors import StoreError
from support.deferring import TaskState
from support.filled_forms import PLACES, filled
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory

REMARK = "the job was not touched"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> TaskState:
    """Return the state that all tasks of the run share."""
    state = TaskState()
    monkeypatch.setattr(job_record, "run_state", lambda _: state)
    return state


XComField = dict[tuple[str, str], Any]
"""XComs of tasks, by task and key."""


def end_of(xcoms: XComField, states: dict[str, str]) -> Any:
    """Return the instance of the last task in a run whose other tasks have these states."""
    return SimpleNamespace(
        dag_id="a-dag",
        run_id="a-run",
        task_id="end",
        xcom_pull=lambda task_ids, key="return_value": xcoms.get((task_ids, key)),
        get_task_states=lambda **_: {"a-run": {"end": "running", **states}},
    )


def output_of_end(instance: Any, *, has_job: bool = True) -> Any:
    """Run the last task of a DAG with or without a job, and return its output."""
    with DAG("a-dag", schedule=None) as dag:
        job_end_task([LOOK_TASK]) if has_job else end_task(task_ids_after_publication=[])
    end: Any = dag.get_task("end")
    return end.python_callable(params=filled(**PLACES, parallelism=3), ti=instance)


@pytest.mark.parametrize(
    ("planned", "sentence"),
    [
        (None, "the run ended before there was a plan"),
        ({"plan": "/rescaled.rescale/plan.json", "target": "/rescaled"}, "there is no connection 'nobody'"),
    ],
)
def test_end_of_a_run_without_its_connection_names_plan_or_connection_and_job(
    planned: dict[str, Any] | None, sentence: str
) -> None:
    """Without a plan, the error of the earlier task is not repeated, and nothing is said of the unseen target."""
    xcoms = {(PLAN_TASK, "return_value"): planned}
    instance = end_of(xcoms, {"inspect": "failed"})
    with DAG("a-dag", schedule=None) as dag:
        end_task(task_ids_after_publication=[], remark=lambda _: REMARK)
    end: Any = dag.get_task("end")
    with pytest.raises(TaskEnded) as ended:
        end.python_callable(params=filled(**PLACES, parallelism=3, connection="nobody"), ti=instance)
    assert ended.value.error.what == f"{sentence}; {REMARK}"


BEFORE = JobToRestart(
    "http://flink", "1" * 32, "clicks", StopMode.STOP, "/savepoints", 2, RunJar("http://flink", "a.jar")
)
LOOKED = {"before": msgspec.to_builtins(BEFORE)}


@pytest.mark.parametrize(
    ("failed", "sentence"),
    [
        ("go_back", "might not be running"),
        ("inspect", "might not be running"),  # the output of `plan` is from before the run was cleared
    ],
)
def test_run_with_a_failed_task_is_not_skipped_as_nothing_to_do(failed: str, sentence: str) -> None:
    """A skipped run would be green, though its job might not run."""
    xcoms = {(LOOK_TASK, "return_value"): LOOKED, (PLAN_TASK, NOTHING_TO_DO_KEY): "nothing to do"}
    instance = end_of(xcoms, {"plan": "skipped", failed: "failed"})
    with pytest.raises(TaskEnded, match=sentence):
        output_of_end(instance)


def test_run_with_nothing_to_do_whose_job_went_back_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "skip_task", Mock(side_effect=AirflowSkipException))
    xcoms = {(LOOK_TASK, "return_value"): LOOKED, (PLAN_TASK, NOTHING_TO_DO_KEY): "nothing to do"}
    instance = end_of(xcoms, {"plan": "skipped", "go_back": "success"})
    with pytest.raises(AirflowSkipException):
        output_of_end(instance)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_rescale(directory("2-clicks"), str(tmp_path / "rescaled"), ["3"])


def planned(plan: Plan) -> XComField:
    summary = {"plan": places_of(plan).plan, "target": plan.target, "digest": plan.digest}
    return {(PLAN_TASK, "return_value"): summary}


def published(plan: Plan) -> XComField:
    return {**planned(plan), (PUBLISH_TASK, "return_value"): {"target": plan.target}}


def ended(xcoms: XComField, *, has_job: bool = False, failed: tuple[str, ...] = (), back: str = "success") -> Any:
    """Return the result or error of the last task after the tasks `failed`; `back` is the state of `go_back`."""
    states = {"go_back": back, **dict.fromkeys(failed, "failed"), "validate": "upstream_failed"}
    instance = end_of(xcoms, states)
    try:
        return output_of_end(instance, has_job=has_job)
    except TaskEnded as task_ended:
        return task_ended.error


OWN = {"dag": "a-dag", "run": "a-run"}


def followed(plan: Plan) -> XComField:
    """Return the XComs of a run whose task that follows the job did not finish."""
    begin_following(plan.target, FollowedJob(BEFORE.directory, {}), accept_unconditional=False)
    looked = {"before": msgspec.to_builtins(msgspec.structs.replace(BEFORE, target=plan.target))}
    return {
        (FOLLOW_TASK, FOLLOWED_TARGET_KEY): plan.target,
        (LOOK_TASK, "return_value"): looked,
        ("go_back", "return_value"): RUNS,
    }


def test_end_of_a_live_rescale_before_the_cut_over_counts_the_files_that_are_left(plan: Plan) -> None:
    """The documents that describe the followed job are not counted, because the next try has the same ones."""
    xcoms = followed(plan)
    error = ended(xcoms, has_job=True, failed=(FOLLOW_TASK,))
    assert error.what.startswith(
        "nothing was published: the run ended before the job was cut over; the job 'clicks' runs"
    )
    assert (error.path, error.found) == (plan.target, f"failed: {FOLLOW_TASK}")
    assert "remove" not in error.advice
    pinned = join(pins_place(plan.target), "1.sst")
    open_store(pinned).put(pinned, b"pinned")
    advice = ended(xcoms, has_job=True, failed=(FOLLOW_TASK,)).advice
    assert f'remove the 1 file that the run left: run "{DISCARD_TITLE}" for this target' in advice
    assert "goes on with the rounds" not in advice
    base = Places(round_target(plan.target, 3), "").metadata
    open_store(base).put(base, b"metadata")
    advice = ended(xcoms, has_job=True, failed=(FOLLOW_TASK,)).advice
    clause = "clear all tasks of this run: it goes on with the rounds, unless somebody starts the job again"
    assert f"{clause} without its state; or" in advice
    assert "remove the 2 files" in advice
    assert "to resume a cancelled run" not in advice, "the task would not cut over a job that was started again"
    assert "to resume a cancelled run" in ended(xcoms, has_job=True, failed=(FOLLOW_TASK,), back="skipped").advice
    for back in ("failed", "upstream_failed"):  # there may be no job
        assert "goes on with the rounds" not in ended(xcoms, has_job=True, failed=(FOLLOW_TASK,), back=back).advice
    decide_cut_over(plan.target, OWN, "given up by ada", is_approved=False)
    advice = ended(xcoms, has_job=True, failed=(FOLLOW_TASK,)).advice
    assert "goes on with the rounds" not in advice, "the run would read the decision and give up at once"
    assert "remove the 2 files" in advice


@pytest.mark.parametrize("deleted", [False, True])
def test_end_of_a_live_rescale_after_its_publication_says_so(plan: Plan, deleted: bool) -> None:
    xcoms = followed(plan)
    claim(plan, run_identity=OWN)
    execute_without_spark(plan)
    if deleted:
        shutil.rmtree(plan.target)
    error = ended(xcoms, has_job=True, failed=(FOLLOW_TASK,))
    published = "its result was published, and later deleted" if deleted else "its result is published"
    assert error.what.startswith(
        f"the task {FOLLOW_TASK!r} did not finish, but {published}; the job 'clicks' runs again: "
    )
    assert "nothing was published" not in error.what
    assert "start no second job" in error.advice
    assert DISCARD_TITLE not in error.advice


def test_end_of_a_live_rescale_is_silent_about_files_of_another_run(plan: Plan) -> None:
    xcoms = followed(plan)
    claim(plan, run_identity={**OWN, "run": "another"})
    execute_without_spark(plan)
    error = ended(xcoms, has_job=True, failed=(FOLLOW_TASK,))
    assert "the job was cut over, and another run has claimed the target (plan " in error.what
    assert "run another" in error.what
    assert "published" not in error.what
    assert DISCARD_TITLE not in error.advice


@pytest.mark.parametrize("answer", ["runs", "has ended", "unknown"])
def test_end_of_a_run_that_could_not_go_back_says_whether_the_new_job_runs(
    plan: Plan, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    xcoms = followed(plan)
    del xcoms["go_back", "return_value"]
    claim(plan, run_identity=OWN)
    execute_without_spark(plan)
    new = next(derived_ids("job", "a-dag/a-run", BEFORE.job_id))
    lines = [SimpleNamespace(job_id=new, has_ended=answer == "has ended")]
    jobs = Mock(return_value=lines, side_effect=StoreError("Flink is away") if answer == "unknown" else None)
    monkeypatch.setattr(starting, "open_flink", lambda _: nullcontext(SimpleNamespace(jobs=jobs)))
    error = ended(xcoms, has_job=True, failed=(FOLLOW_TASK, "go_back"))
    clause = f"was started from the result ({new})" if answer == "runs" else "might not be running"
    assert f"its result is published; the job 'clicks' {clause}" in error.what


@pytest.mark.parametrize("with_own_files", [True, False])
def test_result_deleted_after_publication_is_an_error(with_own_files: bool, plan: Plan) -> None:
    execute_without_spark(plan)
    assert ended(published(plan)) == {"target": plan.target}
    shutil.rmtree(plan.target)
    if with_own_files:
        shutil.rmtree(f"{plan.target}.rescale")
    error = ended(published(plan))
    assert "nothing was published" not in str(error)
    assert error.path == plan.target
    assert error.is_final


def test_result_deleted_by_the_job_that_runs_from_it_is_no_error(plan: Plan) -> None:
    """In CLAIM mode, Flink deletes the result once newer checkpoints have replaced it."""
    execute_without_spark(plan)
    shutil.rmtree(plan.target)
    xcoms = {**published(plan), (HAND_OVER_TASK, "return_value"): {"job": "1" * 32}}
    assert ended(xcoms) == {"target": plan.target}


def test_failed_tasks_are_named(plan: Plan) -> None:
    claim(plan)
    assert ended(planned(plan), failed=("reshuffle_keyed_state", "end")).found == "failed: reshuffle_keyed_state"
    assert ended({}, failed=("inspect",)).found == "failed: inspect"
    assert ended({}).found is None


@pytest.mark.parametrize("is_published", [True, False])
def test_rejection_is_reported_with_the_state_of_the_target(is_published: bool, plan: Plan) -> None:
    """Another run of the plan may have published before the answer."""
    if is_published:
        execute_without_spark(plan)
    answer = {"approved": False, "plan": plan.digest, "words": "rejected by ada"}
    error = ended({**planned(plan), (ASK_TASK, PLAN_ANSWER_KEY): answer}, failed=("approve", "rejected"))
    assert error.found == "rejected by ada"
    assert ("nothing was published" in error.what) is not is_published


RUNS = {"job": "2" * 32, "name": "clicks", "parallelism": 3, "restored_from": "/savepoints/1"}


def test_success_is_logged_in_one_sentence(plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    execute_without_spark(plan)
    caplog.set_level(logging.INFO, logger=ending.__name__)
    handed = {(LOOK_TASK, "return_value"): LOOKED, (HAND_OVER_TASK, "return_value"): {**RUNS, "in_place_of": "1" * 32}}
    xcoms = {**published(plan), **handed, ("announce", "return_value"): {}}
    assert ended(xcoms, has_job=True) == {"target": plan.target}
    (sentence,) = [record.getMessage() for record in caplog.records]
    for word in (plan.target, "clicks", "2" * 32):
        assert word in sentence
    assert "{" not in sentence


def test_run_that_went_back_is_red_although_it_has_handed_the_job_over(plan: Plan) -> None:
    """The task that hands over was ended by hand, but had reported the new job before its process ended."""
    execute_without_spark(plan)
    handed = {(LOOK_TASK, "return_value"): LOOKED, (HAND_OVER_TASK, "return_value"): {**RUNS, "in_place_of": "1" * 32}}
    back = {("go_back", "return_value"): {**RUNS, "job": "4" * 32, "in_place_of": "1" * 32}}
    error = ended({**published(plan), **handed, **back, ("announce", "return_value"): {}}, has_job=True)
    assert error.what.startswith(
        "the result was published, but the job was started again with its old shape; the job 'clicks' "
    )
    assert f"runs again: job {'4' * 32} runs" in error.what


def test_run_whose_job_was_handed_over_before_says_so(plan: Plan) -> None:
    """The task that hands the job over was cleared, and has no output any more."""
    execute_without_spark(plan)
    JobRecord("a-dag/a-run", BEFORE, None).note(Phase.STARTED)
    xcoms = {
        **published(plan),
        (LOOK_TASK, "return_value"): LOOKED,
        ("go_back", NOTHING_TO_DO_KEY): "it was handed over",
    }
    error = ended(xcoms, has_job=True, failed=(HAND_OVER_TASK,))
    assert error.what.endswith(
        f"the task {HAND_OVER_TASK!r} did not succeed; the job 'clicks' was handed over, and is left alone"
    )


@pytest.mark.parametrize("phase", [None, *Phase])
def test_run_that_cannot_look_at_its_job_again_says_that_the_job_was_stopped(phase: Phase | None) -> None:
    """All tasks were cleared after the job was stopped, and the first one fails."""
    if phase is not None:
        JobRecord("a-dag/a-run", BEFORE, None).note(phase)
    error = ended({}, has_job=True, failed=(LOOK_TASK,), back="upstream_failed")
    is_stopped = phase in (Phase.STOPS, Phase.GOES_BACK)
    clause = (
        "the job 'clicks' might not be running, because this run has stopped it" if is_stopped else "nothing is done"
    )
    assert f"; {clause}" in error.what


def test_error_says_from_where_the_job_was_started_again(plan: Plan) -> None:
    claim(plan)
    xcoms = {**planned(plan), (LOOK_TASK, "return_value"): LOOKED, ("go_back", "return_value"): RUNS}
    error = ended(xcoms, has_job=True, failed=("publish",))
    assert error.found == "failed: publish"
    assert "/savepoints/1" in error.what
    assert "{" not in error.what


def test_end_does_not_deny_a_publication_that_may_have_happened(plan: Plan) -> None:
    """The task was killed for good after storing its mark, and perhaps `_metadata`, which a job may have deleted."""
    execute_without_spark(plan)
    open_store(plan.target).delete([places_of(plan).metadata, places_of(plan).published])
    assert ended(planned(plan), failed=("publish",)).what == "the result may have been published"
    open_store(plan.target).delete([places_of(plan).publishing])
    assert ended(planned(plan), failed=("publish",)).what == "nothing was published"

"""A run whose job was started again leaves its rounds to the next run, and says only what that run will do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from rescale.airflow.claims import identity_of_run
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.forms.form_advice import DISCARD_TITLE, reword_for_form
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.job_operators import GoBack
from rescale.airflow.job.job_tasks import _check_places
from rescale.airflow.live import next_run as left
from rescale.airflow.live.next_run import leave_rounds, next_run_advice
from rescale.airflow.steps.earlier_tasks import FOLLOWED_TARGET_KEY
from rescale.flink_rest.client import StopMode
from rescale.planning.request.request import make_request
from rescale.runstate.approval import decide_cut_over
from rescale.runstate.claim import claim
from rescale.runstate.follower.rounds import (
    UNKNOWN_CHECKPOINTS,
    FollowedJob,
    begin_following,
    end_following,
    followed_job,
    round_target,
)
from rescale.runstate.places import Places, discarding_place, prepared_place, run_directory
from rescale.runstate.removal import discard
from rescale.runstate.states import digest_of_claim
from rescale.storage.locations import join, parent
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, StoreError
from support.deferring import TaskState, run_operator
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory

JOB, AGAIN = FollowedJob("/checkpoints/a", {}), FollowedJob("/checkpoints/b", {})
RUN = {"dag": "a-dag", "run": "manual"}
PREPARED = "0" * 32 + "-keyed-0-prepared"


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Return a target that has followed a job, with a base."""
    target = str(tmp_path / "rescaled")
    begin_following(target, JOB, accept_unconditional=False)
    put(Places(round_target(target, 3), "").metadata)
    return target


def put(uri: str) -> None:
    open_store(uri).put(uri, b"bytes")


def followed_by_another(target: str) -> None:
    end_following(target)
    begin_following(target, AGAIN, accept_unconditional=False)


def claimed(target: str) -> None:
    claim(plan_rescale(directory("2-clicks"), target, ["3"]), run_identity=RUN)


def test_next_run_goes_on_with_the_rounds(target: str) -> None:
    for is_left in (False, True):  # the job still runs, or was started again
        if is_left:
            end_following(target)
        assert "it goes on with the rounds" in str(next_run_advice(target, JOB.checkpoints))
        _check_places(make_request("/savepoint", target, ["3"]), JOB.checkpoints)
    begin_following(target, AGAIN, accept_unconditional=False)


def test_next_run_of_a_target_without_rounds_does_not_go_on_with_any(tmp_path: Path) -> None:
    """No max parallelism changes, so files are copied ahead."""
    target = str(tmp_path / "rescaled")
    begin_following(target, JOB, accept_unconditional=False)
    put(prepared_place(target))
    put(join(target, PREPARED))
    advice = next_run_advice(target, JOB.checkpoints)
    assert advice is not None
    assert "rounds" not in advice
    assert "the same target" in advice
    _check_places(make_request("/savepoint", target, ["3"]), JOB.checkpoints)


@pytest.mark.parametrize("is_left", [False, True])
def test_run_that_stops_the_job_is_refused_by_a_target_with_rounds(target: str, is_left: bool) -> None:
    """Its result would be published beside the rounds, which would stay for ever."""
    if is_left:
        end_following(target)
    with pytest.raises(RequestError, match="the target belongs to a follower") as caught:
        _check_places(make_request("/savepoint", target, ["3"]))
    reword_for_form(caught.value)
    assert f'run "{DISCARD_TITLE}" for {target}' in str(caught.value.advice)
    discard(target)
    _check_places(make_request("/savepoint", target, ["3"]))


REFUSALS: dict[str, Callable[[str], object]] = {
    "claimed": claimed,
    "published": lambda target: execute_without_spark(plan_rescale(directory("2-clicks"), target, ["3"])),
    "decided": lambda target: decide_cut_over(target, RUN, "given up by ada", is_approved=False),
    "approved": lambda target: decide_cut_over(target, RUN, "approved by ada", is_approved=True),
    "foreign": lambda target: put(join(target, "foreign")),
    "copied without a document": lambda target: put(join(target, PREPARED)),
    "being discarded": lambda target: put(discarding_place(target)),
    "discarded": discard,
    "of another start": followed_by_another,
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_target_that_the_next_run_would_be_refused_is_not_advised(target: str, refusal: str) -> None:
    REFUSALS[refusal](target)
    assert next_run_advice(target, JOB.checkpoints) is None


def test_run_leaves_its_last_round_and_decision_and_keeps_its_rounds(target: str) -> None:
    claimed(target)
    decide_cut_over(target, RUN, "approved by ada", is_approved=True)
    assert "it goes on with the rounds" in leave_rounds(target, JOB.checkpoints, RUN)
    assert digest_of_claim(target) is None
    assert followed_job(target) == FollowedJob(UNKNOWN_CHECKPOINTS, {})


def test_advice_after_another_run_has_claimed_the_target_names_another_one(target: str) -> None:
    claimed(target)
    assert "another target" in leave_rounds(target, JOB.checkpoints, {**RUN, "run": "another"})
    assert digest_of_claim(target) is not None


def test_cleared_run_resumes_or_discards_the_last_round_that_it_made_before_it_failed(tmp_path: Path) -> None:
    """The task failed after it had put the cut-over off, for example: the job still runs, and the rounds are there."""
    source, target = directory("2-clicks"), str(tmp_path / "rescaled")
    job = FollowedJob(parent(source), {})
    begin_following(target, job, accept_unconditional=False)
    claim(plan_rescale(source, target, ["3"]), run_identity=RUN, is_last_round=True)
    request = make_request(source, target, ["3"])
    _check_places(request, job.checkpoints)
    for followed in (None, "/checkpoints/b"):
        with pytest.raises(RequestError, match="the target is occupied"):
            _check_places(request, followed)
    execute_without_spark(plan_rescale(source, target, ["3"]))
    with pytest.raises(RequestError, match="the target is occupied"):
        _check_places(request, job.checkpoints)


def test_rounds_that_cannot_be_left_need_another_target(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left, "leave", Mock(side_effect=StoreError("the store is busy")))
    assert "another target" in leave_rounds(target, JOB.checkpoints, RUN)


@pytest.mark.parametrize("still_runs", [False, True])
def test_task_that_goes_back_leaves_the_rounds_of_the_run(
    target: str, monkeypatch: pytest.MonkeyPatch, still_runs: bool
) -> None:
    """The cut-over was killed for good after the cancel, so this task has started the job again."""
    answer = {"job": "2" * 32, "name": "clicks"} | ({"went_back": False} if still_runs else {})
    jar = RunJar("http://flink", "clicks.jar")
    before = JobToRestart("http://flink", "1" * 32, "clicks", StopMode.CHECKPOINT, JOB.checkpoints, 2, jar)
    run = SimpleNamespace(dag_id="a-dag", run_id="manual")
    claim(plan_rescale(directory("2-clicks"), target, ["3"]), run_identity=identity_of_run(run))
    monkeypatch.setattr("rescale.airflow.job.job_operators.end_pending_work", lambda *_: None)
    monkeypatch.setattr("rescale.airflow.job.job_operators.go_back", lambda *_: answer)
    task: Any = GoBack(task_id="back", old_job_document=msgspec.to_builtins(before))
    if still_runs:
        with pytest.raises(AirflowSkipException, match="still runs"):
            run_operator(task, "manual", TaskState({FOLLOWED_TARGET_KEY: target}))
        assert followed_job(target) == JOB
        return
    assert run_operator(task, "manual", TaskState({FOLLOWED_TARGET_KEY: target})) == {
        **answer,
        "in_place_of": before.job_id,
    }
    assert "it goes on with the rounds" in str(next_run_advice(target, JOB.checkpoints))
    assert [*open_store(target).list(target)] == []
    assert [*open_store(target).list(run_directory(target))], "the rounds"

"""The question of the cut-over: when it is asked, what it shows, and what its answers do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, BaseOperator

from rescale.airflow.flink.last_checkpoint import REPEATED_RECORDS
from rescale.airflow.live import cut_over_question
from rescale.airflow.live.cut_over_question import CUT_OVER, GIVE_UP, NOT_YET, AskToCutOver, cut_over_question_text
from rescale.airflow.settings import ApprovalRules, PlansToApprove, Settings
from rescale.airflow.steps.earlier_tasks import FOLLOW_TASK
from rescale.runstate.decisions import cut_over_decision

ROUNDS = {
    "round": 3,
    "checkpoint": 17,
    "rows_written": 1200,
    "rows_deleted": 1100,
    "change_rate": 2_000_000.0,
    "last_round_seconds": 2.0,
    "is_short": True,
    "first_checkpoint": "All state is written.",
    "asks": True,
}


class QuestionAsked(Exception):  # noqa: N818
    """Raised instead of deferring the task, as Airflow does to wait for an answer."""


def context(target: Path, follow: str = "running", rounds: dict[str, Any] | None = None, **params: Any) -> Any:
    pushed: dict[str, Any] = {}
    given = None if rounds is None else {**rounds, "target": str(target)}

    def pull(task_ids: str, key: str) -> Any:
        return given if task_ids == FOLLOW_TASK else pushed.get(key)

    ti = SimpleNamespace(
        dag_id="d",
        run_id="r",
        xcom_pull=pull,
        xcom_push=pushed.__setitem__,
        get_task_states=lambda **_: {"r": {FOLLOW_TASK: follow}},
    )
    form = {"while_it_runs": True, "connection": None, "accept_unconditional_publish": False, **params}
    run = SimpleNamespace(dag_id="d", run_id="r", triggering_user_name="ada")
    return {"params": form, "ti": ti, "dag_run": run}


@pytest.fixture(autouse=True)
def _parked(monkeypatch: pytest.MonkeyPatch) -> None:
    def park(*_: object) -> None:
        raise QuestionAsked

    monkeypatch.setattr(HITLOperator, "execute", park)

    def skip(reason: str) -> None:
        raise AirflowSkipException(reason)

    monkeypatch.setattr(cut_over_question, "skip_task", skip)


def answered(task: AskToCutOver, given: Any, option: str, user: str | None = "grace") -> Any:
    """Resume the task with an answer; `user` is None if the time is over."""
    by = None if user is None else {"id": user, "name": user}
    answer = {"chosen_options": [option], "responded_by_user": by, "responded_at": datetime.now(UTC)}
    with patch.object(HITLOperator, "execute_complete", return_value=answer):
        return task.execute_complete(given, {"timedout": user is None})


@pytest.mark.parametrize(
    "form",
    [
        {"while_it_runs": False},
        {"follow": "failed"},
        {"rounds": {**ROUNDS, "asks": False}},
    ],
)
def test_question_without_a_cut_over_is_skipped(form: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AirflowSkipException):
        AskToCutOver().execute(context(tmp_path, **form))


@pytest.mark.parametrize("rounds", [None, {**ROUNDS, "is_short": False}])
def test_question_waits_until_the_last_round_is_short(rounds: dict[str, Any] | None, tmp_path: Path) -> None:
    with pytest.raises(TaskDeferred) as caught:
        AskToCutOver().execute(context(tmp_path, rounds=rounds))
    assert caught.value.method_name == "look_again"


def test_question_waits_for_a_base_that_needs_an_approval(tmp_path: Path) -> None:
    """By the settings, the base was too small to need an approval. A new base may be larger, and waits for one."""
    settings = Settings(approval=ApprovalRules(required=PlansToApprove(above_gigabytes=500)))
    with patch.object(cut_over_question, "settings", return_value=settings):
        with pytest.raises(TaskDeferred) as caught:
            AskToCutOver().execute(context(tmp_path, rounds={**ROUNDS, "asks": False}))
        assert caught.value.method_name == "look_again"
        with pytest.raises(QuestionAsked):
            AskToCutOver().look_again(context(tmp_path, rounds=ROUNDS))
        with pytest.raises(AirflowSkipException):
            AskToCutOver().look_again(context(tmp_path, "success", rounds={**ROUNDS, "asks": False}))


@pytest.mark.parametrize(("option", "approved"), [(CUT_OVER, True), (GIVE_UP, False)])
def test_answer_is_stored_as_the_decision(option: str, approved: bool, tmp_path: Path) -> None:
    task, target = AskToCutOver(), tmp_path / "target"
    task_context = context(target, rounds=ROUNDS)
    with pytest.raises(QuestionAsked):
        task.execute(task_context)
    assert "17" in (task.body or "")
    assert answered(task, task_context, option)["approved"] is approved
    decision = cut_over_decision(str(target))
    assert decision is not None
    assert decision.approved is approved
    assert "grace" in decision.answer


def test_answer_after_the_end_of_the_rounds_decides_nothing(tmp_path: Path) -> None:
    """The window may have closed meanwhile: nothing may be stored beside a target that was discarded."""
    task, target = AskToCutOver(), tmp_path / "target"
    task_context = context(target, rounds=ROUNDS)
    with pytest.raises(QuestionAsked):
        task.execute(task_context)
    task_context["ti"].get_task_states = lambda **_: {"r": {FOLLOW_TASK: "failed"}}
    with pytest.raises(AirflowSkipException):
        answered(task, task_context, CUT_OVER)
    assert cut_over_decision(str(target)) is None


def test_not_yet_defers_the_question_and_a_timeout_repeats_it_at_once(tmp_path: Path) -> None:
    task, target = AskToCutOver(), tmp_path / "target"
    task_context = context(target, rounds=ROUNDS)
    with pytest.raises(QuestionAsked):
        task.execute(task_context)
    asked_at = datetime.now(UTC)
    with pytest.raises(TaskDeferred) as caught:
        answered(task, task_context, NOT_YET)
    assert caught.value.trigger.moment > asked_at + timedelta(minutes=4)
    with pytest.raises(QuestionAsked):
        answered(task, task_context, NOT_YET, user=None)
    assert cut_over_decision(str(target)) is None


def test_four_eyes_rule_needs_an_answer_of_another_user(tmp_path: Path) -> None:
    task, target = AskToCutOver(), tmp_path / "target"
    task_context = context(target, rounds=ROUNDS)
    settings = Settings(approval=ApprovalRules(four_eyes=True))
    with patch.object(cut_over_question, "settings", return_value=settings):
        with pytest.raises(QuestionAsked):
            task.execute(task_context)
        with pytest.raises(QuestionAsked):
            answered(task, task_context, CUT_OVER, user="ada")
        assert cut_over_decision(str(target)) is None
        assert answered(task, task_context, CUT_OVER, user="grace")["approved"]


def test_question_shows_the_newest_figures() -> None:
    text = cut_over_question_text(ROUNDS)
    assert "1,200 written, 1,100 deleted" in text
    assert "2 MB/s" in text
    assert "about 2 seconds" in text
    assert "All state is written." in text
    assert REPEATED_RECORDS in text
    assert "nothing has to be moved" in cut_over_question_text({"asks": True, "first_checkpoint": ""})


def test_question_needs_no_slot_of_the_pool_in_the_settings() -> None:
    """The followed job's task holds a slot until the question is answered, and the pool may have a single one."""
    with DAG("rescale_job", schedule=None, default_args={"pool": "rescale"}):
        assert BaseOperator(task_id="another").pool == "rescale"
        assert AskToCutOver().pool == "default_pool"

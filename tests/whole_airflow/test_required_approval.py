"""A required approval cannot be avoided by the form, by marking tasks, or by a second run of the same plan."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from rescale.demo.airflow_home import DAG_ID
from support.airflow_server import AirflowServer, Run, request
from support.snapshots import directory
from support.whole_airflow import platform_with

pytestmark = pytest.mark.slow

MOVING = ("reshuffle_keyed_state", "redistribute_operator_state")

FROM_AIRFLOW = {"openlineage": {"parentRunId": "0190", "parentJobName": "nightly.trigger"}}
"""Entries that Airflow adds to the `conf` of a run triggered by `TriggerDagRunOperator`."""


def begin(airflow: AirflowServer, target: Path, **values: Any) -> Run:
    """Trigger a run whose steps work without Spark."""
    conf = request(directory("2-clicks"), str(target), parallelism=3, **values, **FROM_AIRFLOW)
    return airflow.trigger_dag(DAG_ID, conf, dag_run_id=f"fails-nothing-{uuid.uuid4()}")


def is_published(target: Path) -> bool:
    return (target / "_metadata").exists()


def test_approval_that_the_settings_require_cannot_be_waived_by_form_or_mark(
    airflow: AirflowServer, tmp_path: Path
) -> None:
    with platform_with(airflow, "approval:\n  required:\n    above_gigabytes: 0\n"):
        approved = begin(airflow, tmp_path / "approved", require_approval=False)
        marked = begin(airflow, tmp_path / "marked", require_approval=False)
        for run in (approved, marked):
            run.question()
        marked.mark("approve", "success")
        approved.answer("Approve")
        assert approved.end() == "success", approved.states()
        assert marked.end() == "failed", marked.states()
    assert is_published(tmp_path / "approved")
    assert not is_published(tmp_path / "marked")
    for task_id in MOVING:
        assert "the plan needs an approval, and nobody has approved it" in marked.log_text(task_id)


def test_second_run_neither_overtakes_a_waiting_one_nor_publishes_a_rejected_plan(
    airflow: AirflowServer, tmp_path: Path
) -> None:
    target = tmp_path / "rescaled"
    waiting = begin(airflow, target, require_approval=True)
    waiting.question()
    second = begin(airflow, target)
    assert second.end() == "failed", second.states()
    assert "another run already waits for the approval of this plan" in second.log_text("plan")
    assert waiting.run_id in second.log_text("plan")
    assert second.states()["rejected"] == "skipped"
    waiting.answer("Reject")
    assert waiting.end() == "failed", waiting.states()
    assert "the plan was rejected; nothing was published" in waiting.log_text("rejected")
    assert list(tmp_path.iterdir()) == []
    third = begin(airflow, target)
    assert third.end() == "success", third.states()
    assert is_published(target)


def test_question_stays_open_after_its_run_is_cancelled(airflow: AirflowServer, tmp_path: Path) -> None:
    target = tmp_path / "rescaled"
    first = begin(airflow, target, require_approval=True)
    first.question()
    first.cancel()
    assert first.end() == "failed"
    second = begin(airflow, target)
    second.question()
    second.mark("approve", "success")
    assert second.end() == "failed", second.states()
    for task_id in MOVING:
        assert "waits for an approval" in second.log_text(task_id)
    assert not is_published(target)


def test_result_deleted_after_publication_is_reported(airflow: AirflowServer, tmp_path: Path) -> None:
    target = tmp_path / "rescaled"
    run = begin(airflow, target)
    assert run.end() == "success", run.states()
    for path in [*target.iterdir()]:
        path.unlink()
    run.clear_task("end")
    run.wait_for_task("end", "failed")
    assert "the result was published, but no longer exists" in run.log_text("end")


def test_plan_only_run_for_an_occupied_target_says_that_a_run_would_be_refused(
    airflow: AirflowServer, tmp_path: Path
) -> None:
    target = tmp_path / "rescaled"
    target.mkdir()
    (target / "notes.txt").write_text("somebody's")
    run = airflow.trigger_dag("rescale_plan", request(directory("2-clicks"), str(target), parallelism=3))
    assert run.end() == "success", run.states()
    log = run.log_text("plan")
    assert "a run would refuse this plan: the target is occupied" in log
    assert "the job starts with" not in log
    status, headers, page = airflow.page(str(run.links("plan")["Report"]))
    assert status == 200
    assert b"the target is occupied" in page
    assert "sandbox" in headers["Content-Security-Policy"]
    assert [path.name for path in tmp_path.iterdir()] == ["rescaled"]

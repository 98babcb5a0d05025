"""A run that was cancelled, or whose tasks were marked or cleared, is green only if its result is published."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from rescale.demo.airflow_home import DAG_ID
from support.airflow_server import AirflowServer, Run, request, wait_for
from support.snapshots import directory

pytestmark = pytest.mark.slow

_UNREACHABLE = "http://127.0.0.1:9"


def begin(airflow: AirflowServer, target: Path, policy: str = "fails-nothing") -> Run:
    """Trigger a run whose steps work without Spark."""
    conf = request(directory("2-clicks"), str(target), parallelism=3)
    return airflow.trigger_dag(DAG_ID, conf, dag_run_id=f"{policy}-{uuid.uuid4()}")


def test_run_that_is_cancelled_and_cleared_in_part_fails_until_all_is_done(
    airflow: AirflowServer, tmp_path: Path
) -> None:
    target = tmp_path / "rescaled"
    run = begin(airflow, target, "waits-reshuffle_keyed_state")
    run.wait_for_task("reshuffle_keyed_state", "running")
    run.cancel()
    assert run.end() == "failed"
    states = run.states()
    assert (states["reshuffle_keyed_state"], states["publish"], states["end"]) == ("failed", "skipped", "failed")
    assert "nothing was published" in run.log_text("end")
    run.clear(only_failed=True)
    wait_for(lambda: run.state != "failed", "the run to go on")
    assert run.end() == "failed"
    states = run.states()
    assert (states["reshuffle_keyed_state"], states["publish"], states["end"]) == ("success", "skipped", "failed")
    assert "the skipped ones too" in run.log_text("end")
    run.clear()
    wait_for(lambda: run.state != "failed", "the run to go on")
    assert run.end() == "success", run.states()
    assert (target / "_metadata").exists()


def test_run_of_a_job_that_is_marked_as_failed_during_a_retry_fails(
    airflow: AirflowServer,
) -> None:
    places = {"savepoints": "/savepoints", "target": "/rescaled"}
    conf = {"flink": _UNREACHABLE, "job": "clicks", "parallelism": 2, **places}
    run = airflow.trigger_dag("rescale_job", conf)
    run.wait_for_task("look_at_job", "up_for_retry")
    run.cancel()
    assert run.end() == "failed", run.states()
    states = run.states()
    assert {task: state for task, state in states.items() if state != "skipped"} == {"end": "failed"}
    log = run.log_text("end")
    assert "the run ended before there was a plan; nothing is done to the job before" in log


def test_run_fails_if_a_task_is_marked_as_successful_without_publishing(airflow: AirflowServer, tmp_path: Path) -> None:
    run = begin(airflow, tmp_path / "rescaled", "waits-publish")
    run.wait_for_task("publish", "running")
    run.mark("publish", "success")
    assert run.end() == "failed", run.states()
    assert run.states()["publish"] == "success"
    assert "nothing was published: the task 'publish' did not finish" in run.log_text("announce")
    assert not (tmp_path / "rescaled" / "_metadata").exists()


def test_plan_task_that_is_marked_as_successful_too_early_fails_the_next_task(
    airflow: AirflowServer, tmp_path: Path
) -> None:
    run = begin(airflow, tmp_path / "rescaled", "waits-plan")
    run.wait_for_task("plan", "running")
    run.mark("plan", "success")
    assert run.end() == "failed", run.states()
    approve = run.task("approve")
    assert (approve["state"], approve["try_number"]) == ("failed", 1)
    log = run.log_text("approve")
    assert "the task 'plan' has no output: it did not finish" in log
    assert "Traceback" not in log

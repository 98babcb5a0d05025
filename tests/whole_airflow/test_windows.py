"""Windows in a whole Airflow: a run that rescales the newest savepoint, and runs that have a reason not to."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.airflow_server import AirflowServer, Run, wait_for
from support.snapshots import directory
from support.whole_airflow import CLOSES

DAG_ID = "rescale_early"
NOW = {"outside_hours": True}


@pytest.fixture(scope="module")
def folder(airflow: AirflowServer) -> Path:
    """Return the folder of the window's savepoints and results."""
    folder = airflow.home.folder.parent
    shutil.copytree(directory("2-clicks"), folder / "savepoints" / "savepoint-1")
    return folder


@pytest.fixture(scope="module")
def late(airflow: AirflowServer, folder: Path) -> Run:  # noqa: ARG001
    """Trigger a run that should have begun two days ago."""
    return airflow.trigger_dag(DAG_ID, NOW, run_after=(datetime.now(UTC) - timedelta(days=2)).isoformat())


@pytest.fixture(scope="module")
def runs(airflow: AirflowServer, late: Run) -> dict[str, Run]:
    """Trigger two runs at once, beside the late one."""
    return {"first": airflow.trigger_dag(DAG_ID, NOW), "second": airflow.trigger_dag(DAG_ID, NOW), "late": late}


def test_invalid_entry_is_an_import_error_with_its_field_and_the_other_windows_work(
    airflow: AirflowServer,
) -> None:
    def import_error() -> Any:
        errors = airflow.api("GET", "/importErrors")[1]["import_errors"]
        return next((error for error in errors if error["filename"] == "rescale_windows_refused.py"), None)

    error = wait_for(import_error, "the import error")
    wait_for(lambda: airflow.api("GET", f"/dags/{DAG_ID}")[0] == 200, "the window")
    assert "the window 'broken' is not valid: parallelism" in error["stack_trace"]
    assert "0 is less than or equal to the minimum of 0" in error["stack_trace"]
    _, dag = airflow.api("GET", f"/dags/{DAG_ID}")
    assert (dag["has_import_errors"], dag["is_stale"], dag["max_active_runs"]) == (False, False, 1)
    assert airflow.api("GET", "/dags/rescale_broken")[0] == 404


@pytest.mark.slow
def test_runs_of_a_window_do_not_overlap_and_rescale_the_newest_savepoint_once(
    runs: dict[str, Run], folder: Path
) -> None:
    def running() -> list[str]:
        answer = runs["first"].airflow.api("GET", f"/dags/{DAG_ID}/dagRuns?state=running")[1]
        return [run["dag_run_id"] for run in answer["dag_runs"]]

    first = wait_for(running, "a run")
    while (active := running()) == first:
        time.sleep(1)
    assert len(first) == 1
    assert len(active) <= 1
    ended = {name: run.end() for name, run in runs.items()}
    assert ended == dict.fromkeys(runs, "success")
    rescaled = list((folder / "rescaled").glob("early-*/_metadata"))
    assert len(rescaled) == 1
    assert [run.states()["close_window"] for run in runs.values()].count("success") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"paralelism": 2}, "a value was given for a field that the form does not have"),
        ({"target": "/rescaled/{day}"}, "the target of the window is not valid"),
    ],
)
def test_invalid_manual_run_fails_even_without_a_new_savepoint(
    runs: dict[str, Run], fields: dict[str, object], sentence: str
) -> None:
    assert runs["first"].end() == "success"
    run = runs["first"].airflow.trigger_dag(DAG_ID, {**NOW, **fields})
    assert run.end() == "failed"
    log = run.log_text("open_window")
    assert sentence in log
    assert "this is a bug of Rescale" not in log


@pytest.mark.slow
def test_run_without_a_new_savepoint_is_skipped(runs: dict[str, Run], folder: Path) -> None:
    assert {run.end() for run in runs.values()} == {"success"}
    run = next(runs[name] for name in ("first", "second") if runs[name].states()["open_window"] == "skipped")
    assert set(run.states().values()) == {"skipped"}
    log = run.log_text("open_window")
    assert f"nothing new: {folder}/savepoints/savepoint-1 is already rescaled" in log


@pytest.mark.slow
def test_run_after_closing_time_is_skipped(late: Run) -> None:
    assert late.end() == "success"
    assert set(late.states().values()) == {"skipped"}
    log = late.log_text("open_window")
    assert "too late: the window opened at" in log
    assert f"{CLOSES} CE" in log


@pytest.mark.slow
def test_manual_run_outside_the_hours_is_skipped_unless_its_form_asks_for_it(late: Run) -> None:
    run = late.airflow.trigger_dag(DAG_ID, {})
    assert run.end() == "success"
    assert set(run.states().values()) == {"skipped"}
    log = run.log_text("open_window")
    assert "too late: the window opened at" in log
    assert "outside_hours" in log

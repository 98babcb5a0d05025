"""Windows in a whole Airflow: a run that rescales the newest savepoint, and those that have a reason not to."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.airflow_server import AirflowServer, Run, wait_for
from support.snapshots import directory

pytestmark = pytest.mark.timeout(600)

DAG_ID = "rescale_early"


@pytest.fixture(scope="module")
def folder(airflow: AirflowServer) -> Path:
    """Where the window's savepoints lie, and where its results go."""
    folder = airflow.home.folder.parent
    shutil.copytree(directory("2-clicks"), folder / "savepoints" / "savepoint-1")
    return folder


@pytest.fixture(scope="module")
def late(airflow: AirflowServer, folder: Path) -> Run:  # noqa: ARG001
    """A run that should have begun two days ago."""
    return airflow.trigger_dag(DAG_ID, {}, run_after=(datetime.now(UTC) - timedelta(days=2)).isoformat())


@pytest.fixture(scope="module")
def runs(airflow: AirflowServer, late: Run) -> dict[str, Run]:
    """Three runs, triggered at once."""
    return {"first": airflow.trigger_dag(DAG_ID, {}), "second": airflow.trigger_dag(DAG_ID, {}), "late": late}


def test_a_bad_entry_is_an_import_error_that_names_the_field_and_the_others_are_in_service(
    airflow: AirflowServer,
) -> None:
    def import_error() -> Any:
        errors = airflow.api("GET", "/importErrors")[1]["import_errors"]
        return next((error for error in errors if error["filename"] == "rescale_windows_refused.py"), None)

    error = wait_for(import_error, "the import error", 300)
    wait_for(lambda: airflow.api("GET", f"/dags/{DAG_ID}")[0] == 200, "the window", 300)
    assert "the window 'broken' makes no sense: parallelism" in error["stack_trace"]
    assert "0 is less than or equal to the minimum of 0" in error["stack_trace"]
    _, dag = airflow.api("GET", f"/dags/{DAG_ID}")
    assert (dag["has_import_errors"], dag["is_stale"], dag["max_active_runs"]) == (False, False, 1)
    assert airflow.api("GET", "/dags/rescale_broken")[0] == 404


@pytest.mark.slow
def test_a_window_never_overlaps_itself_and_rescales_the_newest_savepoint(runs: dict[str, Run], folder: Path) -> None:
    first = wait_for(lambda: next((run for run in runs.values() if run.state == "running"), None), "a run")
    while first.state == "running":
        active = [run for run in runs.values() if run.state == "running"]
        assert len(active) <= 1, active
        time.sleep(1)
    ended = {name: run.end() for name, run in runs.items()}
    assert ended == dict.fromkeys(runs, "success")
    rescaled = list((folder / "rescaled").glob("early-*/_metadata"))
    assert len(rescaled) == 1
    assert [run.states()["close_window"] for run in runs.values()].count("success") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"paralelism": 2}, "the form has no such field"),
        ({"target": "/rescaled/{day}"}, "the target of a window makes no sense"),
    ],
)
def test_by_hand_nothing_is_passed_over_where_nothing_is_new(
    runs: dict[str, Run], wrong: dict[str, object], sentence: str
) -> None:
    assert runs["first"].end() == "success"
    run = runs["first"].airflow.trigger_dag(DAG_ID, wrong)
    assert run.end() == "failed"
    told = run.told("open_window")
    assert sentence in told
    assert "a fault of Rescale itself" not in told


@pytest.mark.slow
def test_with_nothing_new_a_run_is_skipped(runs: dict[str, Run], folder: Path) -> None:
    run = next(one for name, one in runs.items() if name != "late" and one.states()["open_window"] == "skipped")
    assert set(run.states().values()) == {"skipped"}
    told = run.told("open_window")
    assert f"nothing new: {folder}/savepoints/savepoint-1 was rescaled already" in told


@pytest.mark.slow
def test_after_closing_time_a_run_is_skipped(late: Run) -> None:
    assert late.end() == "success"
    assert set(late.states().values()) == {"skipped"}
    told = late.told("open_window")
    assert "too late: the window opened at" in told
    assert "04:59 CE" in told

"""Task groups of a rescale in a user's DAG, in a whole Airflow: questions, reports, and the effect of a rejection."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from support.airflow_server import AirflowServer
from support.snapshots import directory

pytestmark = pytest.mark.slow


def test_approved_group_goes_on_and_each_group_has_a_report(airflow: AirflowServer, tmp_path: Path) -> None:
    run = airflow.trigger_dag("two_groups", {"source": directory("2-clicks"), "folder": str(tmp_path)})
    question = run.question("first.approve")
    assert f"{tmp_path}/first" in question["subject"]
    run.answer("Approve", "first.approve")
    assert run.end() == "success", run.states()
    assert run.xcom("after") == f"{tmp_path}/second"
    for group in ("first", "second"):
        for task in ("plan", "validate", "publish"):
            report = run.links(f"{group}.{task}")["Report"]
            assert report is not None
            assert unquote(report).endswith(f"?task={group}.plan")
        status, _, page = airflow.page(str(report))
        assert status == 200
        assert f"{tmp_path}/{group}".encode() in page


def test_rejected_group_fails_and_later_tasks_do_not_run(airflow: AirflowServer, tmp_path: Path) -> None:
    run = airflow.trigger_dag("two_groups", {"source": directory("2-clicks"), "folder": str(tmp_path)})
    run.question("first.approve")
    run.answer("Reject", "first.approve")
    assert run.end() == "failed"
    states = run.states()
    assert (states["first.rejected"], states["first.end"]) == ("failed", "failed")
    assert states["after"] == "upstream_failed"
    assert "nothing was published: the plan was rejected" in run.log_text("first.end")
    assert "the run ended before there was a plan" in run.log_text("second.end")
    assert not (tmp_path / "first").exists()

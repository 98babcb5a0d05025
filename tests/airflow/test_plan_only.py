"""A plan that is not executed says whether a run would be refused, and has a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rescale.airflow.forms.form import plan_only_form
from rescale.airflow.reports.report_link import REPORT_KEY, ReportPage
from rescale.airflow.savepoint_tasks import show_plan
from rescale.plan.plan import Plan
from rescale.report.report_page import LARGEST_REPORT_BYTES
from rescale.runstate.approval import ask, decide
from rescale.runstate.claim import claim
from rescale.runstate.follower.rounds import FollowedJob, begin_following
from support.filled_forms import filled
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return a plan whose target is empty."""
    return plan_rescale(directory("2-clicks"), str(tmp_path / "rescaled"), ["3"])


def summary_and_report(plan: Plan, **values: Any) -> tuple[dict[str, Any], str]:
    """Return the summary of the plan and its report."""
    form = filled(**{"source": plan.source, "target": plan.target, "parallelism": 3, **values})
    pushed: dict[str, Any] = {}
    instance = SimpleNamespace(
        dag_id="rescale_plan",
        run_id="a-run",
        xcom_push=pushed.__setitem__,
        get_dr_count=lambda run_ids, **_: int(run_ids == ["alive"]),
    )
    summary = show_plan.function(params={name: form[name] for name in plan_only_form()}, ti=instance)
    return summary, msgspec.convert(pushed[REPORT_KEY], ReportPage).html(LARGEST_REPORT_BYTES).decode()


def reject(plan: Plan) -> None:
    claim(plan)
    decide(plan, {}, "rejected by ada", is_approved=False)


def wait_for_an_answer(plan: Plan) -> None:
    run = {"airflow": "", "dag": "rescale", "run": "alive"}
    claim(plan, run_identity=run)
    ask(plan, run)


def occupy(plan: Plan) -> None:
    Path(plan.target).mkdir()
    (Path(plan.target) / "notes.txt").write_text("somebody's")


REFUSED: dict[str, Callable[[Plan], object]] = {
    "occupied": occupy,
    "claimed": lambda plan: claim(plan_rescale(plan.source, plan.target, ["2"])),
    "rejected": reject,
    "asked about": wait_for_an_answer,
    "followed": lambda plan: begin_following(plan.target, FollowedJob("/checkpoints", {}), accept_unconditional=False),
    "another result": lambda plan: execute_without_spark(plan_rescale(plan.source, plan.target, ["2"])),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_plan_only_shows_why_a_run_would_be_refused(reason: str, plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    REFUSED[reason](plan)
    before = sorted(Path(plan.target).parent.rglob("*"))
    caplog.clear()
    summary, report = summary_and_report(plan)
    assert summary["refused"]
    assert summary["refused"] in report
    assert summary["refused"] in caplog.text
    assert plan.start.command not in report + caplog.text
    assert sorted(Path(plan.target).parent.rglob("*")) == before


def test_plan_only_shows_that_a_run_without_a_change_would_be_refused(plan: Plan) -> None:
    summary, report = summary_and_report(plan, parallelism=4)
    assert summary["refused"] in report


@pytest.mark.parametrize("is_published", [False, True])
def test_plan_only_shows_the_start_command_of_an_accepted_plan(
    is_published: bool, plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan that is already published is also accepted."""
    caplog.set_level("INFO")
    if is_published:
        execute_without_spark(plan)
    summary, report = summary_and_report(plan)
    assert summary["refused"] is None
    assert plan.start.command in " ".join(map(str.strip, caplog.messages))
    assert "visits" in report
    assert Path(plan.target).exists() is is_published

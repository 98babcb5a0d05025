"""A plan that must be approved: what is shown, and how the run ends with each answer, or none."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.demo.airflow_home import USER
from support.airflow_server import AirflowServer, Run, request
from support.snapshots import directory

_MOVING = ("reshuffle_keyed_state", "redistribute_operator_state", "validate", "publish", "announce")

WaitingRun = tuple[Run, Path]
"""A run that waits for an answer, and its target."""


@pytest.fixture(scope="module")
def ask(airflow: AirflowServer, tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], WaitingRun]:
    """Return a function that begins a run which waits for an answer for a number of minutes."""

    def run(minutes: float) -> WaitingRun:
        target = tmp_path_factory.mktemp("targets") / "rescaled"
        conf = request(directory("2-clicks"), str(target), parallelism=3)
        return airflow.trigger(**conf, require_approval=True, approval_minutes=minutes), target

    return run


@pytest.fixture(scope="module")
def rejected(ask: Callable[[float], WaitingRun]) -> WaitingRun:
    return ask(60)


@pytest.fixture(scope="module")
def unanswered(ask: Callable[[float], WaitingRun]) -> WaitingRun:
    """Begin a run that gets no answer."""
    return ask(0.01)


def log(run: Run) -> str:
    return "\n".join(line["event"] for line in run.log("approve"))


@pytest.mark.slow
def test_question_shows_plan_costs_and_files(rejected: WaitingRun) -> None:
    run, target = rejected
    question = run.question()
    plan = run.xcom("plan")["plan"]
    subject = f"{directory('2-clicks')} → {target}: parallelism 3, max parallelism unchanged; format unchanged"
    assert (question["subject"], question["defaults"]) == (subject, ["Reject"])
    assert question["body"].startswith("**Can be done, with")
    for part in ("Costs", "to write", "visits", "4 → 3", "relocate", str(target), plan):
        assert part in question["body"], question["body"]
    assert "asked for: parallelism 3" in Path(plan).with_suffix(".md").read_text()
    assert Path(plan).exists()


@pytest.mark.slow
def test_question_links_to_the_report_for_users_who_may_see_the_run(rejected: WaitingRun) -> None:
    run, target = rejected
    (address,) = re.findall(r"\[The report\]\((\S+)\)", run.question()["body"])
    assert run.links("plan") == {"Report": address}
    for name in (USER, "vera"):
        status, headers, page = run.airflow.as_user(name).page(address)
        assert status == 200
        assert page == Path(f"{target}.rescale/report.html").read_bytes()
        assert "sandbox" in headers["Content-Security-Policy"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(address)


@pytest.mark.slow
def test_rejected_plan_fails_the_run_and_leaves_nothing(rejected: WaitingRun) -> None:
    run, target = rejected
    run.question()
    run.answer("Reject")
    assert run.end() == "failed", run.states()
    assert f"rejected by {USER}" in log(run)
    assert run.states() == {
        "inspect": "success",
        "plan": "success",
        "approve": "failed",
        "rejected": "failed",
        **dict.fromkeys(_MOVING, "upstream_failed"),
        "end": "failed",
    }
    assert run.task("approve")["try_number"] == 1
    assert "the plan was rejected; nothing was published" in run.log_text("rejected")
    assert f"nothing was published: the plan was rejected\n  found: rejected by {USER}" in run.log_text("end")
    assert list(target.parent.glob(f"{target.name}*")) == []
    status, _, page = run.airflow.page(str(run.links("plan")["Report"]))
    assert status == 404
    assert b"report.html no longer exists" in page


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.usefixtures("unanswered")
def test_approved_plan_is_executed(ask: Callable[[float], WaitingRun]) -> None:
    run, target = ask(60)
    run.question()
    run.answer("Approve")
    assert run.end() == "success", run.states()
    executed = ("inspect", "plan", "approve", *_MOVING, "end")
    assert run.states() == dict.fromkeys(executed, "success") | {"rejected": "skipped"}
    assert f"approved by {USER}" in log(run)
    assert (target / "_metadata").exists()


@pytest.mark.slow
def test_question_that_is_marked_as_successful_is_no_approval(ask: Callable[[float], WaitingRun]) -> None:
    run, target = ask(60)
    run.question()
    run.mark("approve", "success")
    assert run.end() == "failed", run.states()
    for task_id in ("reshuffle_keyed_state", "redistribute_operator_state"):
        assert "the plan needs an approval, and nobody has approved it" in run.log_text(task_id)
        assert run.task(task_id)["try_number"] == 1
    assert run.states()["rejected"] == "skipped"
    assert not target.exists()


@pytest.mark.slow
def test_timeout_is_a_rejection(unanswered: WaitingRun) -> None:
    run, target = unanswered
    assert run.end() == "failed", run.states()
    assert run.states()["rejected"] == "failed"
    assert run.states()["publish"] == "upstream_failed"
    assert "nobody answered in time, so the plan is rejected" in log(run)
    assert "nobody answered in time" in run.log_text("end")
    assert list(target.parent.glob(f"{target.name}*")) == []

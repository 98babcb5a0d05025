"""Plans that must be approved, whatever the form says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rescale.airflow.forms import filled_form
from rescale.airflow.forms.filled_form import refuse_unapproved_drops
from rescale.airflow.settings import ApprovalRules, PlansToApprove, Settings
from rescale.airflow.steps import required_approval
from rescale.airflow.steps.required_approval import approval_reason, plan_to_execute
from rescale.plan.plan import Plan
from rescale.runstate.approval import decide
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.text.errors import RequestError
from support.filled_forms import PLACES, filled
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory
from support.timed_rows import VALUES


def plan_to(folder: Path, snapshot: str = "2-clicks", **surgery: Any) -> Plan:
    return plan_rescale(directory(snapshot), str(folder / "rescaled"), ["3"], **surgery)


def require(required: PlansToApprove, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(approval=ApprovalRules(required=required))
    for module in (required_approval, filled_form):
        monkeypatch.setattr(module, "settings", lambda: settings)


@pytest.mark.parametrize(
    ("required", "approval_field", "surgery", "expected"),
    [
        (PlansToApprove(), False, {}, False),
        (PlansToApprove(), True, {}, True),
        (PlansToApprove(), False, {"drops": ["visits"]}, True),
        (PlansToApprove(), False, {"state_drops": ["visits:window-contents"]}, True),
        (PlansToApprove(), False, {"max_parallelism": ["visits=256"]}, True),
        (PlansToApprove(), False, {"max_parallelism": ["256"]}, False),
        (PlansToApprove(always=True), False, {}, True),
        (PlansToApprove(above_gigabytes=0), False, {}, True),
        (PlansToApprove(above_gigabytes=1000), False, {}, False),
        (PlansToApprove(above_gigabytes=1000), True, {}, True),
        (PlansToApprove(drops=True), False, {}, False),
        (PlansToApprove(drops=True), False, {"drops": ["visits"]}, True),
    ],
)
def test_form_cannot_waive_a_required_approval(
    required: PlansToApprove,
    approval_field: bool,
    surgery: dict[str, list[str]],
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(required, monkeypatch)
    plan, form = plan_to(tmp_path, **surgery), filled(**PLACES, require_approval=approval_field)
    assert (approval_reason(plan, form) is not None) is expected
    claim(plan)
    planned = {"plan": places_of(plan).plan}
    if expected:
        with pytest.raises(RequestError) as caught:
            plan_to_execute(planned, form)
        assert caught.value.path == plan.target
        decide(plan, {"run": "a-run"}, "approved by ada", is_approved=True)
    assert plan_to_execute(planned, form) == plan


def test_published_plan_needs_no_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(PlansToApprove(always=True), monkeypatch)
    plan = plan_to(tmp_path)
    execute_without_spark(plan)
    assert plan_to_execute({"plan": places_of(plan).plan}, filled(**PLACES)) == plan


def test_restart_of_operators_needs_an_approval(tmp_path: Path) -> None:
    plan = plan_to(tmp_path, "2-partially-finished", restarts=["short"])
    reason = approval_reason(plan, filled(**PLACES, require_approval=False))
    assert reason == "the plan runs finished subtasks again, which may read their input again"


def test_old_rows_need_an_approval(tmp_path: Path) -> None:
    plan = plan_to(tmp_path, "2-canonical-rocksdb", ages=[f"states:{VALUES}=1d"])
    assert approval_reason(plan, filled(**PLACES, require_approval=False)) == "the plan drops old rows of states"
    with pytest.raises(RequestError, match="would drop old rows without an approval"):
        refuse_unapproved_drops(filled(**PLACES, old_rows=["a:b=1d"], require_approval=False))


@pytest.mark.parametrize("required", [PlansToApprove(always=True), PlansToApprove(drops=True)])
def test_form_with_drops_need_not_ask_if_the_platform_requires_the_approval(
    required: PlansToApprove, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = filled(**PLACES, drops=["visits"])
    with pytest.raises(RequestError):
        refuse_unapproved_drops(form)
    require(required, monkeypatch)
    refuse_unapproved_drops(form)

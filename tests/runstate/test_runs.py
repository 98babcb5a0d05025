"""Notes of runs that continue under the claim of an earlier run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.removal import discard
from rescale.runstate.runs import note_run, runs_under
from rescale.runstate.states import Claim, claim_on
from rescale.storage.store import open_store
from rescale.text.errors import RequestError
from support import snapshots
from support.pipeline import plan_rescale

FIRST_RUN, SECOND_RUN = {"dag": "nightly", "run": "first"}, {"dag": "nightly", "run": "second"}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return a plan whose target the first run has claimed."""
    planned = plan_rescale(snapshots.directory("2-finished"), str(tmp_path / "target"), ["3"])
    claim(planned, run_identity=FIRST_RUN)
    return planned


def existing_claim(plan: Plan) -> Claim:
    claim = claim_on(plan.target)
    assert claim is not None
    return claim


def test_runs_under_a_claim_are_known_until_the_target_is_discarded(plan: Plan) -> None:
    note_run(plan, FIRST_RUN)
    assert runs_under(existing_claim(plan), plan.target) == [FIRST_RUN]
    for run in (SECOND_RUN, SECOND_RUN):
        note_run(plan, run)
    assert runs_under(existing_claim(plan), plan.target) == [FIRST_RUN, SECOND_RUN]
    assert discard(plan.target).left == ()
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []


def test_run_with_its_keys_in_another_order_is_noted_once(plan: Plan) -> None:
    for run in (SECOND_RUN, dict(reversed(SECOND_RUN.items()))):
        note_run(plan, run)
    assert runs_under(existing_claim(plan), plan.target) == [FIRST_RUN, SECOND_RUN]


def test_run_noted_while_no_claim_exists_is_not_counted_under_a_later_claim(plan: Plan) -> None:
    """The target was discarded before the run left its note."""
    discard(plan.target)
    note_run(plan, SECOND_RUN)
    claim(plan, run_identity=FIRST_RUN)
    assert runs_under(existing_claim(plan), plan.target) == [FIRST_RUN]


def test_note_of_a_run_of_another_plan_is_not_counted(plan: Plan) -> None:
    note_run(plan, SECOND_RUN)
    other_claim = existing_claim(plan)._replace(plan_digest="0a" * 32)
    assert runs_under(other_claim, plan.target) == [FIRST_RUN]


def test_note_of_a_run_that_cannot_be_read_is_refused(plan: Plan) -> None:
    uri = places_of(plan).run_note("0a" * 8)
    open_store(uri).put(uri, b"[")
    with pytest.raises(RequestError, match="the name of a run") as caught:
        runs_under(existing_claim(plan), plan.target)
    assert caught.value.path == uri

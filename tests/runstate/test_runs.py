"""Notes of runs that go on under the claim of another one."""

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

FIRST, SECOND = {"dag": "nightly", "run": "first"}, {"dag": "nightly", "run": "second"}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return a plan whose target the first run has claimed."""
    planned = plan_rescale(snapshots.directory("2-finished"), str(tmp_path / "target"), ["3"])
    claim(planned, by=FIRST)
    return planned


def held(plan: Plan) -> Claim:
    claim = claim_on(plan.target)
    assert claim is not None
    return claim


def test_who_comes_after_the_first_one_is_known_too_until_all_is_discarded(plan: Plan) -> None:
    note_run(plan, FIRST)
    assert runs_under(held(plan), plan.target) == [FIRST]
    for run in (SECOND, SECOND):
        note_run(plan, run)
    assert runs_under(held(plan), plan.target) == [FIRST, SECOND]
    assert discard(plan.target).left == ()
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []


def test_a_run_says_once_who_it_is_in_whatever_order(plan: Plan) -> None:
    for run in (SECOND, dict(reversed(SECOND.items()))):
        note_run(plan, run)
    assert runs_under(held(plan), plan.target) == [FIRST, SECOND]


def test_where_nobody_has_claimed_a_run_may_say_so_too(plan: Plan) -> None:
    """Somebody has discarded what was claimed."""
    discard(plan.target)
    note_run(plan, SECOND)
    claim(plan, by=FIRST)
    assert runs_under(held(plan), plan.target) == [FIRST]


def test_a_note_of_another_plan_says_nothing_of_this_one(plan: Plan) -> None:
    note_run(plan, SECOND)
    other = held(plan)._replace(plan="0a" * 32)
    assert runs_under(other, plan.target) == [FIRST]


def test_what_is_no_note_is_not_passed_over(plan: Plan) -> None:
    uri = places_of(plan).run("0a" * 8)
    open_store(uri).put(uri, b"[")
    with pytest.raises(RequestError, match="the name of a run") as caught:
        runs_under(held(plan), plan.target)
    assert caught.value.path == uri

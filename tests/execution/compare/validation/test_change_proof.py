"""The proof of a continued result compares removed and added rows on both sides, and adds them to the base's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.compare.validation.change_proof import ChangeComparer, ChangeTally, continued_operators
from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.keyed.blocks.record_digest import MODULUS, StateDigest
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certificate import CertifiedOperator, CertifiedState
from rescale.text.errors import IntegrityError, RequestError
from support import edited
from support.pipeline import execute_without_spark, move, plan_continued, plan_rescale

STATE = "pages"
OPERATOR = "clicks-per-user"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of a moved result that continues a base; the later checkpoint is a copy of the earlier one."""
    folder = tmp_path_factory.mktemp("continued")
    earlier, later = (edited.relocated("2-rocksdb-native", folder / name) for name in ("earlier", "later"))
    base(earlier, folder / "base", "3")
    plan = plan_continued(str(later), str(folder / "target"), str(folder / "base"), ["3"], ["1000"])
    move(plan, InProcessTasks())
    return plan


def base(earlier: Path, target: Path, parallelism: str) -> None:
    execute_without_spark(plan_rescale(str(earlier), str(target), [parallelism], max_parallelism=["1000"]))


@dataclass(frozen=True)
class ChangedTasks(InProcessTasks):
    """Tasks that also find the rows of `tallies`, whatever was read."""

    tallies: tuple[ChangeTally, ...] = ()

    def run(self, work: Callable[[Any], Any], *arguments: Any, **more: Any) -> list[Any]:
        results = super().run(work, *arguments, **more)
        return [*results, *self.tallies] if isinstance(work, ChangeComparer) else results


def proof(plan: Plan, *tallies: ChangeTally) -> CertifiedOperator:
    """Return the proof of the continued operator, whose changes include the tallies."""
    (number,) = continued_operators(plan)
    tasks = ChangedTasks(tallies=tuple(tally._replace(operator=number) for tally in tallies))
    return validate_coverage(plan, tasks, Proof.CHANGES).operators[number]


def tally(in_result: bool, before: StateDigest | None = None, after: StateDigest | None = None) -> ChangeTally:
    left, came = ({} if digest is None else {STATE: digest} for digest in (before, after))
    return ChangeTally(0, in_result, left, came, 100)


def certified(operator: CertifiedOperator) -> CertifiedState:
    assert operator.records is not None
    return operator.records.states[STATE]


def test_digests_are_those_of_the_base_less_removed_and_plus_added_rows(plan: Plan) -> None:
    unchanged = proof(plan)
    removed, added = StateDigest(2, MODULUS - 5), StateDigest(3, 7)
    changed = proof(plan, tally(False, removed, added), tally(True, removed), tally(True, None, added))
    before, after = certified(unchanged), certified(changed)
    assert after.records == before.records + 1
    assert int(after.digest, 16) == (int(before.digest, 16) + 12) % MODULUS
    assert changed.changes is not None
    assert unchanged.records is not None
    assert changed.records is not None
    assert (changed.changes.left, changed.changes.came) == (2, 3)
    assert changed.records.compared == unchanged.records.compared + 5
    assert changed.bytes == unchanged.bytes + 200, "the bytes that were read of the result"
    others = {state: digest for state, digest in unchanged.records.states.items() if state != STATE}
    assert others.items() <= changed.records.states.items()


@pytest.mark.parametrize(
    ("source", "result", "direction"),
    [
        (tally(False, StateDigest(1, 5)), tally(True), "removed"),
        (tally(False), tally(True, None, StateDigest(1, 5)), "added"),
        (tally(False, StateDigest(1, 5)), tally(True, StateDigest(1, 6)), "removed"),
    ],
)
def test_rows_that_only_one_side_removed_or_added_are_found(
    plan: Plan, source: ChangeTally, result: ChangeTally, direction: str
) -> None:
    with pytest.raises(IntegrityError, match=f"the rows {direction} since the base differ") as caught:
        proof(plan, source, result)
    assert (caught.value.operator, caught.value.state) == (OPERATOR, STATE)


def test_no_more_rows_can_be_removed_than_the_base_has(plan: Plan) -> None:
    records = certified(proof(plan)).records
    all_of_them = StateDigest(records, 0)
    emptied = proof(plan, tally(False, all_of_them), tally(True, all_of_them))
    assert emptied.records is not None
    assert STATE not in emptied.records.states
    too_many = StateDigest(records + 1, 0)
    with pytest.raises(IntegrityError, match="more records were removed from a state") as caught:
        proof(plan, tally(False, too_many), tally(True, too_many))
    assert caught.value.expected == f"at most {records}"


def test_base_must_be_the_result_that_the_plan_was_made_for(plan: Plan, tmp_path: Path) -> None:
    earlier = edited.relocated("2-rocksdb-native", tmp_path / "earlier")
    base(earlier, tmp_path / "base", "3")
    continued = plan_continued(plan.source, str(tmp_path / "target"), str(tmp_path / "base"), ["3"], ["1000"])
    move(continued, InProcessTasks())
    for place in (tmp_path / "base", tmp_path / "base.rescale"):
        shutil.rmtree(place)
    base(earlier, tmp_path / "base", "2")
    with pytest.raises(RequestError, match="the base is not the result that the plan was made for") as caught:
        validate_coverage(continued, InProcessTasks(), Proof.CHANGES)
    assert caught.value.advice == "plan again"


def test_operators_without_a_base_are_not_proven_by_changes(plan: Plan) -> None:
    (number,) = continued_operators(plan)
    rekeying = plan.operators[number].rekeying
    assert rekeying is not None
    whole = replace(plan.operators[number], rekeying=replace(rekeying, bases=()))
    assert continued_operators(replace(plan, operators=(whole,))) == ()

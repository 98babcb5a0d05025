"""The proof of a continued result compares the changes on both sides."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.compare.validation import change_proof, directories
from rescale.execution.compare.validation.change_proof import ChangeComparer, ChangeTally, continued_operator_indices
from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.keyed.blocks.record_digest import MODULUS, StateDigest
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certificate import CertifiedOperator, CertifiedState
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.model import Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, StoreError
from support import edited
from support.pipeline import execute_without_spark, move, plan_continued, plan_rescale

STATE = "pages"
OPERATOR = "clicks-per-user"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of a later checkpoint's result, which continues the earlier one's; both checkpoints are equal."""
    folder = tmp_path_factory.mktemp("continued")
    earlier, later = (edited.relocated("2-rocksdb-native", folder / name) for name in ("earlier", "later"))
    publish_base(earlier, folder / "base", "3")
    plan = plan_continued(str(later), str(folder / "target"), str(folder / "base"), ["3"], ["1000"])
    move(plan, InProcessTasks())
    return plan


def publish_base(earlier: Path, target: Path, parallelism: str) -> None:
    execute_without_spark(plan_rescale(str(earlier), str(target), [parallelism], max_parallelism=["1000"]))


@dataclass(frozen=True)
class TallyAddingTasks(InProcessTasks):
    """Tasks whose comparison of changes also returns `tallies`; with `only_once`, only the first comparison does."""

    tallies: tuple[ChangeTally, ...] = ()
    only_once: bool = False
    runs: list[None] = field(default_factory=list)

    def run(self, work: Callable[[Any], Any], *arguments: Any, **more: Any) -> list[Any]:
        results = super().run(work, *arguments, **more)
        if not isinstance(work, ChangeComparer):
            return results
        self.runs.append(None)
        return results if self.only_once and len(self.runs) > 1 else [*results, *self.tallies]


def prove(plan: Plan, *tallies: ChangeTally, only_once: bool = False) -> CertifiedOperator:
    """Return the proof of the continued operator, whose changes include the tallies."""
    (operator_index,) = continued_operator_indices(plan)
    tasks = TallyAddingTasks(
        tallies=tuple(tally._replace(operator_index=operator_index) for tally in tallies), only_once=only_once
    )
    return validate_coverage(plan, tasks, Proof.CHANGES).operators[operator_index]


def tally(in_result: bool, digest: StateDigest | None = None, deletions: int = 0) -> ChangeTally:
    return ChangeTally(0, in_result, {} if digest is None else {STATE: digest}, deletions, 100)


def test_changes_are_counted_and_digested_by_state(plan: Plan) -> None:
    unchanged = prove(plan)
    changed = prove(
        plan,
        tally(False, StateDigest(2, MODULUS - 5), 1),
        tally(False, StateDigest(1, 7)),
        tally(True, StateDigest(3, 2), 1),
    )
    assert changed.changes is not None
    assert unchanged.records is not None
    assert changed.records is not None
    assert (changed.changes.written, changed.changes.deleted) == (2, 1)
    assert changed.records.compared == unchanged.records.compared + 3
    assert changed.bytes == unchanged.bytes + 100, "the bytes that were read of the result"
    assert STATE not in unchanged.records.states
    assert changed.records.states == {**unchanged.records.states, STATE: CertifiedState(3, f"{2:032x}")}


@pytest.mark.parametrize(
    ("source", "result"),
    [
        (tally(False, StateDigest(1, 5)), tally(True)),
        (tally(False), tally(True, StateDigest(1, 5))),
        (tally(False, StateDigest(1, 5)), tally(True, StateDigest(1, 6))),
        (tally(False, StateDigest(1, 5)), tally(True, StateDigest(1, 5, 1))),
    ],
)
def test_changes_that_only_one_side_has_are_found(plan: Plan, source: ChangeTally, result: ChangeTally) -> None:
    with pytest.raises(IntegrityError, match="the changes since the base differ") as caught:
        prove(plan, source, result)
    assert (caught.value.operator, caught.value.state) == (OPERATOR, STATE)


@pytest.mark.parametrize(("in_result", "side"), [(False, "source"), (True, "result")])
def test_misread_of_a_change_is_worth_another_try(plan: Plan, in_result: bool, side: str) -> None:
    with pytest.raises(StoreError, match=f"two reads of the {side} differ"):
        prove(plan, tally(in_result, StateDigest(1, 5)), only_once=True)


def test_damaged_manifest_of_the_result_is_not_blamed_on_the_source(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_for_target(snapshot: Snapshot, *contents: SnapshotFiles) -> Snapshot:
        if snapshot.directory == plan.target:
            raise SnapshotError("the MANIFEST is damaged")
        return with_tables(snapshot, *contents)

    for module in (change_proof, directories):
        monkeypatch.setattr(module, "with_tables", fail_for_target)
    with pytest.raises(IntegrityError, match="the result cannot be read back: the MANIFEST is damaged"):
        prove(plan)


def test_base_must_be_the_result_that_the_plan_was_made_for(plan: Plan, tmp_path: Path) -> None:
    earlier = edited.relocated("2-rocksdb-native", tmp_path / "earlier")
    publish_base(earlier, tmp_path / "base", "3")
    continued_plan = plan_continued(plan.source, str(tmp_path / "target"), str(tmp_path / "base"), ["3"], ["1000"])
    move(continued_plan, InProcessTasks())
    for directory in (tmp_path / "base", tmp_path / "base.rescale"):
        shutil.rmtree(directory)
    publish_base(earlier, tmp_path / "base", "2")
    with pytest.raises(RequestError, match="the base is not the result that the plan was made for") as caught:
        validate_coverage(continued_plan, InProcessTasks(), Proof.CHANGES)
    assert caught.value.advice == "plan again"


def test_operators_without_a_base_are_not_proven_by_changes(plan: Plan) -> None:
    (operator_index,) = continued_operator_indices(plan)
    rekeying = plan.operators[operator_index].rekeying
    assert rekeying is not None
    without_base = replace(plan.operators[operator_index], rekeying=replace(rekeying, bases=()))
    assert continued_operator_indices(replace(plan, operators=(without_base,))) == ()

"""Planted faults in a round that its plan and its proof by changes would share: `validate --proof records` finds each.

Both decide with the same code which keys may have changed. The chain is of a real job that Flink has scaled out, with
all files inside `_metadata`. Between its last checkpoints, values and elements of lists expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oracle.cases import ROCKSDB
from oracle.harness import Flink, Job
from oracle.test_canonical import INLINE
from oracle.test_continuing import execute_with, states_of
from oracle.test_long_chains import OFTEN
from rescale.execution.sources import change_records
from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.keyed.blocks.records import Records
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.planning.continuing import continued_plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.rocksdb.engine.changes.keys import Keys, keys_of
from rescale.runstate.base_result import open_base
from rescale.snapshot.databases import own_tables
from rescale.snapshot.keyed_state import Database, LiveTable
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError
from support.pipeline import execute_without_spark, move, plan_rescale

pytestmark = pytest.mark.slow

OPTIONS = {**INLINE, **OFTEN}
JOB = Job("churn", 3, {"seed": 5, "keys": 80, "turn": 4}, max_parallelism=128, configuration=OPTIONS, **ROCKSDB)
KINDS = (
    *("wave", "checkpoint", "wave", "checkpoint", "wave", "checkpoint"),
    *("pause", "wave", "checkpoint", "pause", "checkpoint"),
)
"""In the first pause, elements expire, which live 1.5 seconds. In the second one, Flink compacts the files."""


class Chain(NamedTuple):
    """A result of the checkpoint before elements have expired, the last checkpoint after that, and one in between."""

    base: str
    between: str
    later: str
    places: tuple[str, ...]

    def plan(self, target: Path) -> Plan:
        request = make_request(self.later, str(target), ["4"], max_parallelism=["1000"], allow_prefixes=self.places)
        full, between = prepare(request), open_snapshot(self.between, allow_prefixes=self.places)
        return continued_plan(full.plan, full.snapshot, open_base(self.base, self.places), [between])


@pytest.fixture(scope="module")
def chain(retaining: Callable[[str], Flink], tmp_path_factory: pytest.TempPathFactory) -> Chain:
    home = tmp_path_factory.mktemp("planted")
    flink, source = retaining("2"), home / "source"
    narrow = flink.snapshot(JOB.with_(parallelism=2), home / "narrow", "checkpoint")
    paths = flink.snapshots(JOB, source, *KINDS, restored=narrow)
    plan = plan_rescale(str(paths[2]), str(home / "base"), ["4"], [str(home)], max_parallelism=["1000"])
    execute_without_spark(plan)
    between, later = map(str, paths[-2:])
    return Chain(str(home / "base"), between, later, (str(home),))


def test_round_without_a_planted_fault_has_every_record(chain: Chain, tmp_path: Path) -> None:
    plan = chain.plan(tmp_path / "target")
    certificate = execute_with(plan, Proof.CHANGES)
    assert states_of(certificate) == states_of(validate_coverage(plan, InProcessTasks(2, None), Proof.RECORDS))


def with_values_of_own_files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take values from the files that differ alone: a delete above a row of a file that both have is missed."""
    looked_up = change_records._OpenSide.rows

    def rows(self: Any, state: str, state_id: int, keys: Keys) -> Iterator[Records]:
        tables = [own.table for own in self.own_tables(state)]
        there = {row.key for table in tables for entry in table.index() for row in table.rows(entry.block)}
        if own := [key for key in keys if key in there]:
            yield from looked_up(self, state, state_id, keys_of(own))

    monkeypatch.setattr(change_records._OpenSide, "rows", rows)


def with_inline_files_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all files that lie in one `_metadata` for one file."""

    def folded(snapshot: Snapshot, database: Database | None) -> dict[str, LiveTable]:
        tables = () if database is None else database.tables
        return {snapshot.origins[table.extent.file]: table for table in tables}

    monkeypatch.setattr(own_tables, "_by_place", folded)


def without_a_state_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the rows of a state that has none any more."""
    looked_at = change_records.ChangeReader._changed_keys

    def changed(self: Any, state: str, *sides: Any) -> Iterator[Keys]:
        return iter(()) if state == "early" else looked_at(self, state, *sides)

    monkeypatch.setattr(change_records.ChangeReader, "_changed_keys", changed)


PLANTED = (
    with_values_of_own_files_alone,
    with_inline_files_folded,
    without_a_state_that_ended,
)


@pytest.mark.parametrize("plant", PLANTED)
def test_planted_fault_in_the_choice_of_keys_is_found_by_comparing_every_record(
    chain: Chain, tmp_path: Path, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """The proof by changes has the fault, too, and finds nothing."""
    with pytest.MonkeyPatch.context() as planted:
        plant(planted)
        plan = chain.plan(tmp_path / "target")
        move(plan, InProcessTasks(2, None))
        assert validate_coverage(plan, InProcessTasks(2, None), Proof.CHANGES).proof is Proof.CHANGES
    with pytest.raises(IntegrityError):
        validate_coverage(plan, InProcessTasks(2, None), Proof.RECORDS)

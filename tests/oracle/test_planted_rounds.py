"""Planted faults in code that both the plan of a round and its proof by changes use; `--proof records` finds each.

Plan and proof decide with the same code which keys may have changed. The chain is of a real job that Flink has scaled
out, with all files inside `_metadata`. Between its last checkpoints, values and elements of lists expire. A second
chain is of a job whose RocksDB drops some of these in a compaction, without a trace, right after the base's checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oracle.cases import ROCKSDB
from oracle.harness import Flink, Job
from oracle.test_canonical import INLINE
from oracle.test_continuing import execute_with
from oracle.test_long_chains import COMPACT_OFTEN
from rescale.execution.sources.change_records import ChangeReader
from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.planning.continuing import continued_plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.rocksdb import options_file
from rescale.rocksdb.engine.changes.changed_keys import Candidates
from rescale.rocksdb.engine.changes.keys import NO_KEYS
from rescale.runstate.pinned_snapshots import open_base
from rescale.snapshot.databases import unshared_tables
from rescale.snapshot.databases.unshared_tables import files_between
from rescale.snapshot.keyed_state import Database, LiveTable
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError
from support.pipeline import execute_without_spark, move, plan_rescale

pytestmark = pytest.mark.slow

OPTIONS = {**INLINE, **COMPACT_OFTEN}
JOB = Job("churn", 3, {"seed": 5, "keys": 80, "turn": 4}, max_parallelism=128, configuration=OPTIONS, **ROCKSDB)
KINDS = (
    *("wave", "checkpoint", "wave", "checkpoint", "wave", "checkpoint"),
    *("pause", "wave", "checkpoint", "pause", "checkpoint"),
)
"""Commands to the first job.

Elements, which live 1.5 seconds, expire in the first pause; Flink compacts the files in the second one.
"""

EXPIRING_JOB = JOB.with_(parameters={**JOB.parameters, "brief": 6000, "compacts": 4}, configuration=INLINE)
KINDS_OF_EXPIRING = (
    *("wave", "checkpoint", "wave", "checkpoint", *["pause"] * 4),
    *("wave", "checkpoint", "wave", "checkpoint"),
)
"""Commands to the second job.

Elements expire in the pauses; those of the wave before the base's checkpoint are still young when RocksDB compacts.
"""


class Chain(NamedTuple):
    """A result of the third checkpoint (`base`), the last checkpoint, and the checkpoints in between."""

    base: str
    between: tuple[str, ...]
    later: str
    prefixes: tuple[str, ...]

    def plan(self, target: Path) -> Plan:
        request = make_request(self.later, str(target), ["4"], max_parallelism=["1000"], allow_prefixes=self.prefixes)
        full_round, between = (
            prepare(request),
            [open_snapshot(path, allow_prefixes=self.prefixes) for path in self.between],
        )
        return continued_plan(
            full_round.plan,
            full_round.snapshot,
            open_base(self.base, self.prefixes),
            files_between([between], full_round.snapshot),
        )


@pytest.fixture(scope="module")
def chain(retaining_flink: Callable[[str], Flink], tmp_path_factory: pytest.TempPathFactory) -> Chain:
    folder = tmp_path_factory.mktemp("planted")
    flink, source = retaining_flink("2"), folder / "source"
    narrow = flink.snapshot(JOB.with_(parallelism=2), folder / "narrow", "checkpoint")
    return chain_of(flink.snapshots(JOB, source, *KINDS, restored=narrow), folder)


@pytest.fixture(scope="module")
def expiring_chain(retaining_flink: Callable[[str], Flink], tmp_path_factory: pytest.TempPathFactory) -> Chain:
    folder = tmp_path_factory.mktemp("expiring")
    return chain_of(retaining_flink("2").snapshots(EXPIRING_JOB, folder / "source", *KINDS_OF_EXPIRING), folder)


def chain_of(checkpoints: Sequence[Path], folder: Path) -> Chain:
    base, (third, *between, later) = folder / "base", map(str, checkpoints[2:])
    execute_without_spark(plan_rescale(third, str(base), ["4"], [str(folder)], max_parallelism=["1000"]))
    return Chain(str(base), tuple(between), later, (str(folder),))


@pytest.mark.parametrize("chain_fixture", ["chain", "expiring_chain"])
def test_round_without_a_planted_fault_has_every_record(
    chain_fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    chain: Chain = request.getfixturevalue(chain_fixture)
    plan = chain.plan(tmp_path / "target")
    execute_with(plan, Proof.CHANGES)
    validate_coverage(plan, InProcessTasks(2, None), Proof.RECORDS)


def without_keys_that_no_entry_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look up no key, so an element that was added to a list is missed."""
    original = ChangeReader._candidates

    def candidates(self: Any, *arguments: Any) -> Iterator[Candidates]:
        return (batch._replace(undecided=NO_KEYS, merged=NO_KEYS) for batch in original(self, *arguments))

    monkeypatch.setattr(ChangeReader, "_candidates", candidates)


def with_inline_files_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat all files inside one `_metadata` as the same file."""

    def tables_by_uri(snapshot: Snapshot, database: Database | None) -> dict[str, LiveTable]:
        tables = () if database is None else database.tables
        return {snapshot.recorded_uris[table.extent.file]: table for table in tables}

    monkeypatch.setattr(unshared_tables, "_tables_by_place", tables_by_uri)


def without_a_state_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find no changed key in a state that has lost all its rows."""
    original = ChangeReader._candidates

    def candidates(self: Any, state: str, *sides: Any) -> Iterator[Candidates]:
        return iter(()) if state == "early" else original(self, state, *sides)

    monkeypatch.setattr(ChangeReader, "_candidates", candidates)


def with_expired_elements_taken_for_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow rows through all compactions, as if none dropped elements of lists, or values, that have expired."""

    def families(data: bytes, path: str) -> frozenset[str]:
        return frozenset(family for family, _, _ in options_file._column_family_settings(data, path))

    monkeypatch.setattr(unshared_tables, "unfiltered_families", families)


FAULTS = (
    ("chain", without_keys_that_no_entry_decides),
    ("chain", with_inline_files_folded),
    ("chain", without_a_state_that_ended),
    ("expiring_chain", with_expired_elements_taken_for_moved),
)


@pytest.mark.parametrize(("chain_fixture", "plant"), FAULTS)
def test_planted_fault_in_the_choice_of_keys_is_found_by_comparing_every_record(
    chain_fixture: str, plant: Callable[[pytest.MonkeyPatch], None], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The proof by changes has the fault, too, and finds nothing."""
    chain: Chain = request.getfixturevalue(chain_fixture)
    with pytest.MonkeyPatch.context() as monkeypatch:
        plant(monkeypatch)
        plan = chain.plan(tmp_path / "target")
        move(plan, InProcessTasks(2, None))
        assert validate_coverage(plan, InProcessTasks(2, None), Proof.CHANGES).proof is Proof.CHANGES
    with pytest.raises(IntegrityError):
        validate_coverage(plan, InProcessTasks(2, None), Proof.RECORDS)

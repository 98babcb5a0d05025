"""New RocksDB directories hold every record, in files of bounded size, however the work is divided."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from rescale.execution.writers import windows
from rescale.execution.writers.rocksdb import rows_writer
from rescale.plan.plan import Plan
from rescale.planning.streams import inline
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.store import open_store
from support.pipeline import execute_without_spark, plan_rescale
from support.results import remove
from support.slow import slow
from support.snapshots import directory


def rocksdb_plan(name: str, target: Path) -> Plan:
    return plan_rescale(directory(name), str(target), ["3"], max_parallelism=["100"], format="rocksdb")


def files_of(plan: Plan) -> dict[str, bytes]:
    store = open_store(plan.target)
    return {entry.uri: store.read_all(entry.uri, 1 << 30)[0] for entry in store.list(plan.target)}


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make several files of every state, and no file inline."""
    monkeypatch.setattr(inline, "INLINE_LIMIT", 0)
    monkeypatch.setattr(windows, "WINDOW_BYTES", 500)
    monkeypatch.setattr(windows, "CELL_BYTES", 500)
    monkeypatch.setattr("rescale.execution.rekeying.write_ranges.RANGE_SIZE", 500)
    monkeypatch.setattr(rows_writer, "TABLE_BYTES", 60)


@pytest.mark.parametrize("name", ["2-canonical-hashmap", *map(slow, ("2-canonical-compressed", "1.20-rocksdb-native"))])
@pytest.mark.usefixtures("_small")
def test_files_depend_on_the_plan_alone(name: str, tmp_path: Path) -> None:
    plan = rocksdb_plan(name, tmp_path / "target")
    execute_without_spark(plan)
    first_files = files_of(plan)
    remove(plan)
    execute_without_spark(plan, cores=64, order=Random(7))
    assert files_of(plan) == first_files


@pytest.mark.usefixtures("_small")
def test_state_is_cut_into_several_files_in_the_last_level(tmp_path: Path) -> None:
    plan = rocksdb_plan("2-canonical-hashmap", tmp_path / "target")
    execute_without_spark(plan)
    databases = [
        database for operator in with_tables(open_snapshot(plan.target)).operators for database in operator.databases
    ]
    assert {table.file.level for database in databases for table in database.tables} == {6}
    file_counts = [Counter(table.state_id for table in database.tables) for database in databases]
    assert max(max(count_by_state.values()) for count_by_state in file_counts) > 1


def test_small_directory_lies_inline(tmp_path: Path) -> None:
    plan = rocksdb_plan("2-clicks", tmp_path / "target")
    execute_without_spark(plan)
    assert [Path(uri).name for uri in files_of(plan)] == ["_metadata"]

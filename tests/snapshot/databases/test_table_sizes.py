"""Bytes of RocksDB directories by key group: from the indexes that are read, else in equal shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.sst.table_blocks import BlockHandle
from rescale.snapshot import snapshot_files
from rescale.snapshot.databases import table_sizes
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.databases.table_sizes import with_key_group_sizes
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import SnapshotError
from support import snapshots
from support.composite import keyed
from support.pipeline import plan_rescale
from support.rocksdb_writer import MERGE, Writer, written
from support.snapshot_bytes import LONG, VOID_NAMESPACE, keyed_header
from support.sst_files import with_index
from support.tables import Reads, snapshot_of

HEADER = keyed_header(keyed("value", VOID_NAMESPACE), key=LONG)
UNCOMPRESSED_OPTIONS = (
    f"{MERGE};compression=kNoCompression;block_based_table_factory={{format_version=5;block_size=512}}"
)


def fill(writer: Writer, rows_of: Callable[[int], int], prefix_bytes: int = 1, key_groups: range = range(128)) -> None:
    for key_group in key_groups:
        for i in range(rows_of(key_group)):
            writer.put("value", key_group.to_bytes(prefix_bytes, "big") + i.to_bytes(8, "big") + b"\0", bytes(100))
    writer.flush()


def measured_sizes(snapshot: Snapshot) -> tuple[int, ...]:
    (database,) = with_key_group_sizes(snapshot).operators[0].databases
    return database.measured_sizes


@pytest.mark.parametrize(("max_parallelism", "prefix_bytes"), [(128, 1), (1000, 2)])
def test_sizes_of_key_groups_show_skew(max_parallelism: int, prefix_bytes: int, tmp_path: Path) -> None:
    """Some key groups are empty, one is large; key groups outside the declared range do not count."""

    def rows_of(key_group: int) -> int:
        return 2000 if key_group == 40 else 30 * (key_group % 3)

    with written(tmp_path / "db", ["value"], UNCOMPRESSED_OPTIONS) as writer:
        fill(writer, rows_of, prefix_bytes)
        files = writer.checkpoint(tmp_path / "checkpoint")
    own_groups = KeyGroupRange(10, 99)
    sizes = measured_sizes(snapshot_of(files, HEADER, own_groups, max_parallelism))
    assert len(sizes) == len(own_groups)
    table_bytes = sum(file.length for file in files if file.name.endswith(".sst"))
    row_count = sum(map(rows_of, range(128)))
    assert sum(sizes) == pytest.approx(table_bytes * sum(map(rows_of, range(10, 100))) / row_count, rel=0.01)
    for key_group, size in zip(range(10, 100), sizes, strict=True):
        assert size == pytest.approx(table_bytes * rows_of(key_group) / row_count, abs=2 * 600)


def test_files_of_one_key_group_are_measured_without_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads()
    with written(tmp_path / "db", ["value"], UNCOMPRESSED_OPTIONS) as writer:
        for key_group in (3, 5, 6):
            fill(writer, lambda key_group: 10 * key_group, key_groups=range(key_group, key_group + 1))
        files = writer.checkpoint(tmp_path / "checkpoint")
    snapshot = snapshot_of(files, HEADER, KeyGroupRange(0, 9))
    monkeypatch.setattr(snapshot_files, "open_store", reads.open)
    size_of_3, size_of_5, size_of_6 = sorted(file.length for file in files if file.name.endswith(".sst"))
    assert measured_sizes(snapshot) == (0, 0, 0, size_of_3, 0, size_of_5, size_of_6, 0, 0, 0)
    assert reads.lengths == []


@pytest.mark.parametrize(
    ("most_indexes", "largest_index_bytes", "options"),
    [
        (0, 1 << 20, UNCOMPRESSED_OPTIONS),
        (32, 10, UNCOMPRESSED_OPTIONS),
        (32, 1 << 20, f"{MERGE};block_based_table_factory={{format_version=6}}"),
    ],
    ids=["too many files", "too large an index", "a format that RocksDB alone reads"],
)
def test_file_whose_index_is_not_read_counts_as_spread_over_its_key_groups(
    most_indexes: int, largest_index_bytes: int, options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_sizes, "MOST_INDEXES", most_indexes)
    monkeypatch.setattr(table_sizes, "LARGEST_INDEX_BYTES", largest_index_bytes)
    with written(tmp_path / "db", ["value"], options) as writer:
        fill(writer, lambda key_group: key_group, key_groups=range(20, 40))
        files = writer.checkpoint(tmp_path / "checkpoint")
    (size,) = (file.length for file in files if file.name.endswith(".sst"))
    sizes = measured_sizes(snapshot_of(files, HEADER, KeyGroupRange(0, 127)))
    assert sizes == (0,) * 20 + (size // 20,) * 20 + (0,) * 88


def test_measuring_many_files_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads()
    with written(tmp_path / "db", ["value"], UNCOMPRESSED_OPTIONS) as writer:
        for i in range(40):
            fill(writer, lambda key_group, i=i: 1 + key_group % (i + 2))  # type: ignore[misc]
        files = writer.checkpoint(tmp_path / "checkpoint")
    snapshot = snapshot_of(files, HEADER, KeyGroupRange(0, 127))
    monkeypatch.setattr(snapshot_files, "open_store", reads.open)
    sizes = measured_sizes(snapshot)
    table_bytes = sum(file.length for file in files if file.name.endswith(".sst"))
    assert sum(sizes) == pytest.approx(table_bytes, rel=0.02)
    assert len(reads.lengths) <= 2 * 32
    assert sum(reads.lengths) < table_bytes / 4
    assert measured_sizes(snapshot) == sizes
    reads.lengths.clear()
    with_key_group_sizes(replace(snapshot, operators=snapshot.operators * 10))
    assert len(reads.lengths) <= 2 * 32


@pytest.mark.parametrize("name", ["1.20-rocksdb-2to3", "2-rocksdb-2to3", "2-rocksdb-imported", "1.20-rocksdb-3to2"])
def test_databases_of_flink_are_measured(name: str) -> None:
    snapshot = with_key_group_sizes(with_tables(snapshots.opened(name)))
    databases = [database for operator in snapshot.operators for database in operator.databases]
    assert databases
    for database in databases:
        assert len(database.tables) == sum(file.name.endswith(".sst") for file in database.files)
        assert 0 < sum(database.measured_sizes) <= sum(table.extent.length for table in database.tables)
        assert len(database.measured_sizes) == len(database.key_groups)


def test_plan_holds_the_measured_sizes_of_key_groups(tmp_path: Path) -> None:
    source = snapshots.directory("2-rocksdb-2to3")
    plan, second_plan = (plan_rescale(source, str(tmp_path / "target"), format="canonical") for _ in range(2))
    planned_sizes = [
        database.key_group_sizes
        for operator in plan.operators
        if operator.rekeying
        for database, _ in operator.rekeying.databases
    ]
    snapshot = with_key_group_sizes(with_tables(open_snapshot(source)))
    assert planned_sizes == [
        database.measured_sizes for operator in snapshot.operators for database in operator.databases
    ]
    assert any("are estimates" in warning for warning in plan.warnings)
    assert plan.digest == second_plan.digest


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda table: table[:-1000] + bytes([table[-1000] ^ 1]) + table[-999:], "checksum of a block is wrong"),
        (lambda table: with_index(table, BlockHandle(0, 0)), "an index names an empty block"),  # a right checksum
    ],
)
def test_damaged_index_is_refused(damage: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    with written(tmp_path / "db", ["value"], UNCOMPRESSED_OPTIONS) as writer:
        fill(writer, lambda _: 10)
        files = writer.checkpoint(tmp_path / "checkpoint")
    (table,) = tmp_path.glob("checkpoint/*.sst")
    table.write_bytes(damage(table.read_bytes()))
    with pytest.raises(SnapshotError, match=message) as caught:
        measured_sizes(snapshot_of(files, HEADER, KeyGroupRange(0, 127)))
    assert (caught.value.path, caught.value.operator) == (str(table), "of mine")

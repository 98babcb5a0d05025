"""Rows in batches: those of real Flinks equal canonical savepoints, and those of our databases equal a model."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks import records
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine import scan
from rescale.rocksdb.manifest.manifest import ColumnFamily
from rescale.text.errors import UnsupportedError
from support.databases import Rows, canonical_rows, databases, read_file, read_rows, with_canonical
from support.examples import examples
from support.rocksdb_writer import MERGE, Writer, written

ALL_KEY_GROUPS = KeyGroupRange(0, 127)


def rows_of_model(writer: Writer, key_groups: KeyGroupRange = ALL_KEY_GROUPS) -> Rows:
    return {
        (state, key[0], key[1:]): value
        for state, rows in writer.model.items()
        for key, value in rows.items()
        if key_groups.first <= key[0] <= key_groups.last
    }


def families(name: str) -> list[ColumnFamily]:
    """Return the column families of all databases of a snapshot."""
    return [
        family
        for database in databases(name)
        for family in checked_manifest(database.files, read_file, database.states).column_families
    ]


@pytest.mark.parametrize("name", with_canonical())
def test_scan_gives_the_rows_of_the_canonical_savepoint(name: str, tmp_path: Path) -> None:
    rows_read: Rows = {}
    states: set[str] = set()
    for database in databases(name):
        rows = read_rows(database.files, database.states, database.key_groups, database.max_parallelism, tmp_path)
        assert not rows_read.keys() & rows.keys()
        rows_read |= rows
        states |= set(database.states)
    expected = {row: value for row, value in canonical_rows(name).items() if row[0] in states}
    assert rows_read == expected
    assert {row[0] for row in rows_read} == states


@pytest.mark.parametrize("line", ["1.20", "2"])
def test_fixtures_hold_rows_of_other_subtasks_range_tombstones_and_merged_lists(line: str) -> None:
    lists = [value for row, value in canonical_rows(f"{line}-rocksdb-changing").items() if row[0] == "history"]
    assert any(b"0:" in value and b"1:" in value and b"2:" in value for value in lists)
    assert all(len(family.files) == 3 for family in families(f"{line}-rocksdb-changing") if family.id)
    files_after_scale_out = [file for family in families(f"{line}-rocksdb-2to3") for file in family.files]
    assert any(file.is_largest_exclusive for file in files_after_scale_out)
    files_with_foreign_rows = [
        file
        for file in files_after_scale_out
        if file.smallest_user_key[0] < 86 <= file.largest_user_key[0] and not file.is_largest_exclusive
    ]
    assert len(files_with_foreign_rows) == 2 * 6


@pytest.mark.parametrize("line", ["1.20", "2"])
def test_scan_is_limited_to_the_key_groups_asked_for(line: str, tmp_path: Path) -> None:
    """Range tombstones hide the rows that Flink clipped; bounds of the iterator limit a narrower range."""
    left_out_count = 0
    for database in databases(f"{line}-rocksdb-2to3"):
        first, last = database.key_groups.first, database.key_groups.last
        all_rows = read_rows(database.files, database.states, ALL_KEY_GROUPS, 128, tmp_path)
        assert {row[1] for row in all_rows} <= set(range(first, last + 1))
        narrow_range = KeyGroupRange(first + 5, last - 5)
        rows_in_range = {
            row: value for row, value in all_rows.items() if narrow_range.first <= row[1] <= narrow_range.last
        }
        assert read_rows(database.files, database.states, narrow_range, 128, tmp_path) == rows_in_range
        left_out_count += len(all_rows) - len(rows_in_range)
    assert left_out_count


STATES = ("first", "second")
KEYS = st.builds(lambda group, key: bytes([group]) + key, st.integers(0, 7), st.binary(max_size=2))
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(STATES), KEYS, st.binary(max_size=20)),
    st.tuples(st.just("add"), st.sampled_from(STATES), KEYS, st.binary(max_size=5)),
    st.tuples(st.just("delete"), st.sampled_from(STATES), KEYS),
    st.tuples(st.just("delete_range"), st.sampled_from(STATES), st.sampled_from([b"\0", b"\2"]), st.just(b"\5")),
    st.tuples(st.just("flush")),
    st.tuples(st.just("compact"), st.sampled_from(STATES)),
)


@settings(max_examples=examples(20))
@given(st.lists(STEPS, max_size=25), st.integers(0, 7), st.integers(0, 7))
def test_scan_after_random_writes_gives_the_rows_of_the_model(
    steps: list[tuple[str, ...]], bound: int, other: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, written(Path(folder, "db"), STATES) as writer:
        for step, *arguments in steps:
            getattr(writer, step)(*arguments)
        files = writer.checkpoint(Path(folder, "checkpoint"))
        key_groups = KeyGroupRange(min(bound, other), max(bound, other))
        assert read_rows(files, STATES, key_groups, 128, Path(folder)) == rows_of_model(writer, key_groups)


def test_scan_reads_key_groups_of_two_bytes_up_to_32767(tmp_path: Path) -> None:
    with written(tmp_path / "db", ["state"]) as writer:
        for group in (0, 127, 128, 255, 256, 32766, 32767):
            writer.put("state", group.to_bytes(2, "big") + b"key", b"value")
        files = writer.checkpoint(tmp_path / "checkpoint")
    for first, last, count in ((0, 32767, 7), (128, 255, 2), (256, 32766, 2), (32767, 32767, 1), (300, 400, 0)):
        rows = read_rows(files, ["state"], KeyGroupRange(first, last), 32768, tmp_path)
        assert len(rows) == count
        assert all(first <= row[1] <= last for row in rows)


def test_scan_reads_a_database_with_nine_levels(tmp_path: Path) -> None:
    with written(tmp_path / "db", ["state"], f"{MERGE};num_levels=9;level_compaction_dynamic_level_bytes=1") as writer:
        writer.put("state", b"\1key", b"value")
        writer.compact("state")
        files = writer.checkpoint(tmp_path / "checkpoint")
        (family,) = (family for family in checked_manifest(files, read_file, ["state"]).column_families if family.id)
        assert family.files[0].level == 8
        assert read_rows(files, ["state"], ALL_KEY_GROUPS, 128, tmp_path) == rows_of_model(writer)


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def use(buffer_size: int, row_count: int) -> None:
        monkeypatch.setattr(scan, "BUFFER_SIZE", buffer_size)
        monkeypatch.setattr(scan, "RECORDS_AT_ONCE", row_count)

    return use


@pytest.mark.usefixtures("new_children")
@pytest.mark.parametrize(("buffer_size", "row_count"), [(1 << 20, 1), (1 << 20, 7), (64, 1000), (11, 3)])
def test_scan_gives_the_same_rows_for_any_batch_size(
    buffer_size: int, row_count: int, small_buffers: Callable[[int, int], None], tmp_path: Path
) -> None:
    """Some rows fill the buffer to the last byte, and some are larger than the buffer."""
    small_buffers(buffer_size, row_count)
    with written(tmp_path / "db", ["state"]) as writer:
        for i in range(50):
            writer.put("state", bytes([i]) + b"key", b"v" * (i * i % 97))
        files = writer.checkpoint(tmp_path / "checkpoint")
        assert read_rows(files, ["state"], ALL_KEY_GROUPS, 128, tmp_path) == rows_of_model(writer)


@pytest.mark.usefixtures("new_children")
def test_too_large_row_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scan, "LARGEST_RECORD_SIZE", records.BUFFER_SIZE + 100)
    with written(tmp_path / "db", ["state"]) as writer:
        writer.put("state", b"\1key", bytes(records.BUFFER_SIZE))
        writer.put("state", b"\2key", bytes(records.BUFFER_SIZE + 200))
        files = writer.checkpoint(tmp_path / "checkpoint")
    assert len(read_rows(files, ["state"], KeyGroupRange(0, 1), 128, tmp_path)) == 1
    with pytest.raises(UnsupportedError, match="a row is too large") as caught:
        read_rows(files, ["state"], ALL_KEY_GROUPS, 128, tmp_path)
    assert caught.value.state == "state"


def test_compiled_loop_is_cached_for_other_processes(tmp_path: Path) -> None:
    """The read in this process fills the cache; the second process must hit it."""
    database = databases("2-rocksdb-native")[0]
    rows = read_rows(database.files, database.states, database.key_groups, database.max_parallelism, tmp_path)
    program = (
        "import sys; from pathlib import Path; from support.databases import databases, read_rows;"
        "from rescale.rocksdb.engine import row_loop;"
        "d = databases('2-rocksdb-native')[0];"
        "rows = read_rows(d.files, d.states, d.key_groups, d.max_parallelism, Path(sys.argv[1]));"
        "print(len(rows), sum(row_loop.copy_rows.stats.cache_hits.values()))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert printed.split() == [str(len(rows)), "1"]

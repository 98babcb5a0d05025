"""Databases of real Flinks as canonical key groups, compared with their rows read state by state."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.engine import framed_rows
from rescale.rocksdb.engine.directory import fetched_database
from rescale.rocksdb.engine.framed_rows import KeyGroupRows
from rescale.rocksdb.engine.guarded_database import guarded_database
from rescale.text.errors import SnapshotError
from support.canonical import read_group
from support.databases import Rows, Stored, databases, read_rows, with_canonical
from support.rocksdb_writer import written
from support.slow import pairs_in_turn


def rows_of_key_groups(database: Stored, scratch: Path) -> Rows:
    """Read all rows as whole key groups, and check that record offsets match the bytes."""
    ids = {state: i for i, state in enumerate(database.states)}
    groups: dict[int, bytes] = {}
    described_rows: Rows = {}
    with fetched_database(database.files, scratch) as directory, guarded_database(directory, ids) as opened:
        for window in opened.read(KeyGroupRows(database.max_parallelism, ids, database.key_groups)):
            data = window.records.data.tobytes()
            assert b"".join(bytes(piece) for _, piece in window.pieces) == data
            for key_group, piece in window.pieces:
                groups[key_group] = groups.get(key_group, b"") + bytes(piece)
            records = window.records
            columns = (column.tolist() for column in (records.key_starts, records.key_ends, records.ends))
            for start, limit, end, state, group in zip(*columns, records.state_ids, records.groups, strict=True):
                described_rows[database.states[state], int(group), data[start:limit]] = data[limit + 4 : end]
    assert list(groups) == sorted(groups)
    rows: Rows = {}
    for key_group, content in groups.items():
        for group, record in read_group(content, database.max_parallelism):
            assert group == key_group
            rows[database.states[record.state], key_group, record.key] = record.value
    assert rows == described_rows
    return rows


@pytest.mark.usefixtures("new_children")
@pytest.mark.parametrize(("name", "has_small_buffers"), pairs_in_turn(with_canonical(), [False, True], quick=1))
def test_canonical_key_groups_hold_all_rows_of_the_database(
    name: str, has_small_buffers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_small_buffers:
        monkeypatch.setattr(framed_rows, "_BUFFER_SIZE", 40)
        monkeypatch.setattr(framed_rows, "_RECORDS_AT_ONCE", 3)
    for database in databases(name):
        expected = read_rows(database.files, database.states, database.key_groups, database.max_parallelism, tmp_path)
        assert rows_of_key_groups(database, tmp_path) == expected != {}


def test_key_too_short_for_a_key_group_is_refused(tmp_path: Path) -> None:
    with written(tmp_path / "open", ["one", "two"]) as writer:
        writer.put("one", b"\x01key", b"value")
        writer.put("two", b"\x02", b"value")
        writer.flush()
        files = writer.checkpoint(tmp_path / "taken")
    ids = {"one": 0, "two": 1}
    with (
        fetched_database(files, tmp_path) as directory,
        guarded_database(directory, ids) as database,
        pytest.raises(SnapshotError) as caught,
    ):
        list(database.read(KeyGroupRows(1000, ids, KeyGroupRange(0, 999))))
    assert caught.value.state == "two"

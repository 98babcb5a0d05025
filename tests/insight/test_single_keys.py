"""The only key of a subtask, in heap and RocksDB state; `test_hand_picked_keys.py` has canonical streams."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.insight.single_keys import MOST_SUBTASKS, SingleKey, single_keys
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.snapshot.keyed_state import LiveTable
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from support.heap import LONG, Entry, HeapState, write_heap_group
from support.snapshot_bytes import INT, keyed_header, keyed_state, state
from support.synthetic import database, operator, snapshot
from support.written import write_heap_savepoint

TIMERS = state("timers", 3, {}, {"VALUE_SERIALIZER": INT})
HEADER = read_keyed_header(keyed_header(keyed_state("sum"), keyed_state("count"), TIMERS, key=INT), "")

Tables = list[tuple[int, bytes, bytes]]
"""Per SST file: the id of its state, its smallest and its largest row."""


def row(key_group: int, key: int) -> bytes:
    return struct.pack(">Bi", key_group, key) + b"\0"


def snapshot_of_databases(*subtasks: Tables, header: KeyedHeader | None = HEADER, is_measured: bool = True) -> Snapshot:
    databases = []
    for subtask, tables in enumerate(subtasks):
        source_database = database(subtask, len(subtasks), 128, 100)
        live_tables = tuple(
            LiveTable(
                state_id,
                LiveFile(0, 9, 100, InternalKey(smallest, 0, 1), InternalKey(largest, 0, 1), 0, 0),
                source_database.files[0].extent,
            )
            for state_id, smallest, largest in tables
        )
        databases.append(
            replace(source_database, parsed=header, tables=live_tables, measured_sizes=(100,) if is_measured else ())
        )
    return snapshot(operator("counts", len(subtasks), databases=tuple(databases)))


def keys_of(source: Snapshot) -> list[SingleKey]:
    return single_keys(source, source.operators[0])


TABLES_OF_KEY_7, TABLES_OF_KEY_8 = [(0, row(3, 7), row(3, 7))], [(0, row(90, 8), row(90, 8))]


def test_key_of_every_row_between_equal_limits_is_the_only_one() -> None:
    both_states = [*TABLES_OF_KEY_7, (1, row(3, 7) + b"a", row(3, 7) + b"z")]
    assert keys_of(snapshot_of_databases(both_states, TABLES_OF_KEY_8)) == [
        SingleKey(0, 3, struct.pack(">i", 7)), SingleKey(1, 90, struct.pack(">i", 8))
    ]  # fmt: skip


@pytest.mark.parametrize(
    "tables",
    [
        [(0, row(3, 7), row(3, 9))],
        [(0, row(3, 7), row(4, 7))],
        [*TABLES_OF_KEY_7, (1, row(3, 9), row(3, 9))],
    ],
)
def test_subtask_with_several_keys_has_no_only_key(tables: Tables) -> None:
    assert keys_of(snapshot_of_databases(tables, TABLES_OF_KEY_8)) == []


def test_rows_of_timers_begin_with_a_timestamp_and_are_left_out() -> None:
    assert keys_of(
        snapshot_of_databases([*TABLES_OF_KEY_7, (2, b"\3" + bytes(8), b"\3" + b"\xff" * 8)], TABLES_OF_KEY_8)
    ) == keys_of(snapshot_of_databases(TABLES_OF_KEY_7, TABLES_OF_KEY_8))


def test_operator_that_may_hold_other_state_is_left_out() -> None:
    assert keys_of(snapshot_of_databases(TABLES_OF_KEY_7, TABLES_OF_KEY_8, is_measured=False)) == []
    assert keys_of(snapshot_of_databases(TABLES_OF_KEY_7, TABLES_OF_KEY_8, header=None)) == []
    assert (
        keys_of(replace(snapshot_of_databases(TABLES_OF_KEY_7, TABLES_OF_KEY_8), missing_files=("/source/lost",))) == []
    )
    assert keys_of(snapshot_of_databases(TABLES_OF_KEY_7)) == [], "one subtask"
    assert keys_of(snapshot_of_databases(*[TABLES_OF_KEY_7] * MOST_SUBTASKS)) != []
    assert keys_of(snapshot_of_databases(*[TABLES_OF_KEY_7] * (MOST_SUBTASKS + 1))) == []


def test_row_that_ends_inside_its_key_gives_no_key() -> None:
    assert keys_of(snapshot_of_databases([(0, row(3, 7), b"\3\0")], TABLES_OF_KEY_8)) == []


def heap_snapshot(folder: Path, keys_by_group: dict[int, list[int]]) -> Snapshot:
    """Return a native savepoint of two subtasks with 4 key groups, whose state has these keys by key group."""
    states = [HeapState("sum", LONG, LONG)]
    header = keyed_header(states[0].info, key=LONG.snapshot)
    contents = {
        group: write_heap_group(
            group, LONG, states, {0: [Entry(1, key, 5) for key in keys_by_group.get(group, ())]}, [0], snappy=False
        )
        for group in range(4)
    }
    return open_snapshot(write_heap_savepoint(folder / "savepoint", [header, header], contents, 4))


def test_only_entry_of_the_only_filled_key_group_gives_the_key(tmp_path: Path) -> None:
    assert keys_of(heap_snapshot(tmp_path, {1: [7], 2: [9]})) == [
        SingleKey(0, 1, LONG.write(7)), SingleKey(1, 2, LONG.write(9))
    ]  # fmt: skip


@pytest.mark.parametrize("keys_by_group", [{1: [7, 8], 2: [9]}, {0: [7], 1: [8], 2: [9]}])
def test_heap_with_two_entries_in_a_subtask_has_no_only_key(
    keys_by_group: dict[int, list[int]], tmp_path: Path
) -> None:
    assert keys_of(heap_snapshot(tmp_path, keys_by_group)) == []

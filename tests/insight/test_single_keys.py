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


def of_databases(*subtasks: Tables, header: KeyedHeader | None = HEADER, measured: bool = True) -> Snapshot:
    databases = []
    for number, tables in enumerate(subtasks):
        made = database(number, len(subtasks), 128, 100)
        live = tuple(
            LiveTable(
                state_id,
                LiveFile(0, 9, 100, InternalKey(smallest, 0, 1), InternalKey(largest, 0, 1), 0, 0),
                made.files[0].extent,
            )
            for state_id, smallest, largest in tables
        )
        databases.append(replace(made, parsed=header, tables=live, measured_sizes=(100,) if measured else ()))
    return snapshot(operator("counts", len(subtasks), databases=tuple(databases)))


def keys_of(source: Snapshot) -> list[SingleKey]:
    return single_keys(source, source.operators[0])


ONE, TWO = [(0, row(3, 7), row(3, 7))], [(0, row(90, 8), row(90, 8))]


def test_key_of_every_row_between_equal_limits_is_the_only_one() -> None:
    both_states = [*ONE, (1, row(3, 7) + b"a", row(3, 7) + b"z")]
    assert keys_of(of_databases(both_states, TWO)) == [
        SingleKey(0, 3, struct.pack(">i", 7)), SingleKey(1, 90, struct.pack(">i", 8))
    ]  # fmt: skip


@pytest.mark.parametrize(
    "several",
    [
        [(0, row(3, 7), row(3, 9))],
        [(0, row(3, 7), row(4, 7))],
        [*ONE, (1, row(3, 9), row(3, 9))],
    ],
)
def test_subtask_with_several_keys_has_no_only_key(several: Tables) -> None:
    assert keys_of(of_databases(several, TWO)) == []


def test_rows_of_timers_begin_with_a_timestamp_and_are_left_out() -> None:
    assert keys_of(of_databases([*ONE, (2, b"\3" + bytes(8), b"\3" + b"\xff" * 8)], TWO)) == keys_of(
        of_databases(ONE, TWO)
    )


def test_operator_that_may_hold_other_state_is_left_out() -> None:
    assert keys_of(of_databases(ONE, TWO, measured=False)) == []
    assert keys_of(of_databases(ONE, TWO, header=None)) == []
    assert keys_of(replace(of_databases(ONE, TWO), missing_files=("/source/lost",))) == []
    assert keys_of(of_databases(ONE)) == [], "one subtask"
    assert keys_of(of_databases(*[ONE] * MOST_SUBTASKS)) != []
    assert keys_of(of_databases(*[ONE] * (MOST_SUBTASKS + 1))) == []


def test_row_that_ends_inside_its_key_gives_no_key() -> None:
    assert keys_of(of_databases([(0, row(3, 7), b"\3\0")], TWO)) == []


def on_the_heap(folder: Path, groups: dict[int, list[int]]) -> Snapshot:
    """Return a native savepoint of two subtasks with 4 key groups, whose state has these keys by key group."""
    states = [HeapState("sum", LONG, LONG)]
    header = keyed_header(states[0].info, key=LONG.snapshot)
    contents = {
        group: write_heap_group(
            group, LONG, states, {0: [Entry(1, key, 5) for key in groups.get(group, ())]}, [0], snappy=False
        )
        for group in range(4)
    }
    return open_snapshot(write_heap_savepoint(folder / "savepoint", [header, header], contents, 4))


def test_only_entry_of_the_only_filled_key_group_gives_the_key(tmp_path: Path) -> None:
    assert keys_of(on_the_heap(tmp_path, {1: [7], 2: [9]})) == [
        SingleKey(0, 1, LONG.write(7)), SingleKey(1, 2, LONG.write(9))
    ]  # fmt: skip


@pytest.mark.parametrize("groups", [{1: [7, 8], 2: [9]}, {0: [7], 1: [8], 2: [9]}])
def test_heap_with_two_entries_in_a_subtask_has_no_only_key(groups: dict[int, list[int]], tmp_path: Path) -> None:
    assert keys_of(on_the_heap(tmp_path, groups)) == []

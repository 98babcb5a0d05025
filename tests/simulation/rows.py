"""Rows of keyed state as a backend would hold them, derived from the bytes of any kind of state.

RocksDB itself reads the rows of its directories. Key groups are cut by their offsets, and slow readers separate their
records. The reader of `rescale` is only used for the names of states in headers.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.metadata.checkpoint_metadata import OperatorState
from rescale.flink.metadata.handles import ChangelogHandle, HandleTag, IncrementalHandle, KeyGroupsHandle, Stream
from rescale.text.errors import RescaleError
from simulation.changelogs import changes_of, rows_after_replay, with_logged_states
from simulation.flinks_rules import hash_code_of_long, key_group_of_code, key_groups_of_subtask
from simulation.headers import keyed_state_names
from simulation.native_databases import rows_of_database
from support.canonical import prefix, read_group


class Kind(StrEnum):
    """Kind of keyed state."""

    CANONICAL = "canonical"
    HEAP = "heap"
    ROCKSDB = "rocksdb"


Row = tuple[str, int, bytes]
"""State, key group, and key without the key group."""

_LONG_BYTES = 8


class WrongError(AssertionError):
    """Error of a result that differs from its source."""


def assert_same(what: str, expected: object, actual: object) -> None:
    """Raise `WrongError` unless both are equal."""
    if expected != actual:
        raise WrongError(f"{what}: expected {str(expected)[:300]}, found {str(actual)[:300]}")


class KeyedRows(NamedTuple):
    """Rows of a subtask; `header` stands before its key groups, or in the file that describes a directory's states.

    `rows` may have a row twice: a rotted bit of a source may turn a row's key or state into that of another row.
    """

    subtask: int
    key_groups: list[int]
    header: bytes
    rows: Sequence[tuple[Row, bytes]]


def kind_of(handle: object) -> Kind:
    """Return the kind of a handle of managed keyed state."""
    if isinstance(handle, ChangelogHandle):
        return kind_of(handle.base[0])
    if isinstance(handle, IncrementalHandle):
        return Kind.ROCKSDB
    assert isinstance(handle, KeyGroupsHandle)
    return Kind.CANONICAL if handle.tag == HandleTag.SAVEPOINT_KEY_GROUPS else Kind.HEAP


def keyed_rows(
    subtask: int,
    handle: ChangelogHandle | IncrementalHandle | KeyGroupsHandle,
    operator: OperatorState,
    content: Callable[[Stream], bytes],
) -> KeyedRows:
    """Return the rows that a backend reads for a subtask; some may be in key groups of other subtasks (`own_rows`).

    Raises `AssertionError` if no backend can open them.
    """
    if isinstance(handle, ChangelogHandle):
        (base,) = handle.base
        assert isinstance(base, IncrementalHandle | KeyGroupsHandle)
        base_rows, changes = keyed_rows(subtask, base, operator, content), list(changes_of(handle, content))
        assert_same("rows below a changelog that are there once", len(base_rows.rows), len(dict(base_rows.rows)))
        rows_after_changes = rows_after_replay(dict(base_rows.rows), changes)
        return base_rows._replace(
            header=with_logged_states(base_rows.header, changes), rows=list(rows_after_changes.items())
        )
    if isinstance(handle, IncrementalHandle):
        first = handle.first_key_group
        own_groups = list(range(first, first + handle.key_group_count))
        header = content(handle.meta)
        states = states_in(header)
        files = [(file.name, content(file.stream)) for file in (*handle.shared, *handle.private)]
        assert_same("names in a directory that are there once", len(files), len({name for name, _ in files}))
        rows_by_state = rows_of_database(tuple(sorted(files)), tuple(states))
        prefix_size = len(prefix(0, operator.max_parallelism))
        rows = [
            ((s, int.from_bytes(k[:prefix_size], "big"), k[prefix_size:]), v)
            for s in states
            for k, v in rows_by_state[s].items()
        ]
        return KeyedRows(subtask, own_groups, header, rows)
    data, first = content(handle.stream), handle.first_key_group
    absent = (-1, 0) if data else (-1,)
    begins = [(offset, first + i) for i, offset in enumerate(handle.offsets) if offset not in absent]
    ends = [*(offset for offset, _ in begins), len(data)][1:]
    header = data[: begins[0][0]] if begins else data
    states = states_in(header)
    read_rows = _canonical_rows if kind_of(handle) is Kind.CANONICAL else _heap_rows
    rows = [
        row
        for (begin, group), end in zip(begins, ends, strict=True)
        for row in read_rows(data[begin:end], group, states, operator.max_parallelism)
    ]
    return KeyedRows(subtask, list(range(first, first + len(handle.offsets))), header, rows)


def assert_rows(
    old: list[KeyedRows], new: list[KeyedRows], operator: OperatorState, new_operator: OperatorState
) -> None:
    """Raise `WrongError` if a row is lost, doubled, changed, or where Flink does not look for it."""
    if not old:
        assert_same("subtasks with keyed state, of which there is none", 0, len(new))
    for stream in new:
        own_groups = key_groups_of_subtask(new_operator.max_parallelism, new_operator.parallelism, stream.subtask)
        assert_same(f"key groups of subtask {stream.subtask}", own_groups, stream.key_groups)
        assert_same(
            f"key groups of others in subtask {stream.subtask}",
            set(),
            {row[1] for row, _ in stream.rows} - {*own_groups},
        )
    assert_same("subtasks with keyed state once", len(new), len({stream.subtask for stream in new}))
    states = {state for stream in old for state in states_in(stream.header)}
    assert_same("states", states, {state for stream in new for state in states_in(stream.header)})
    if len({stream.header for stream in old}) == 1:
        assert_same("headers", {stream.header for stream in old}, {stream.header for stream in new})
    old_rows, new_rows = list(all_own_rows(old)), list(all_own_rows(new))
    if operator.max_parallelism == new_operator.max_parallelism:
        assert_same("rows", Counter(old_rows), Counter(new_rows))
        return
    assert_same("rows", Counter(_without_groups(old_rows)), Counter(_without_groups(new_rows)))
    for (state, group, key), _ in new_rows:
        code = hash_code_of_long(int.from_bytes(key[:_LONG_BYTES], "big", signed=True))
        assert_same(f"key group of a row of {state}", key_group_of_code(code, new_operator.max_parallelism), group)


def own_rows(stream: KeyedRows) -> list[tuple[Row, bytes]]:
    """Return the rows in the subtask's own key groups."""
    own_groups = set(stream.key_groups)
    return [(row, value) for row, value in stream.rows if row[1] in own_groups]


def all_own_rows(streams: list[KeyedRows]) -> Iterator[tuple[Row, bytes]]:
    """Yield the rows in the own key groups of each subtask, without rows of other key groups."""
    for stream in streams:
        yield from own_rows(stream)


def _without_groups(rows: list[tuple[Row, bytes]]) -> Iterator[tuple[str, bytes, bytes]]:
    for (state, _, key), value in rows:
        yield state, key, value


def _canonical_rows(data: bytes, group: int, states: list[str], maximum: int) -> Iterator[tuple[Row, bytes]]:
    for found_group, record in read_group(data, maximum):
        assert_same("key group in front of a key", group, found_group)
        yield (states[record.state], group, record.key), record.value


def _heap_rows(data: bytes, group: int, states: list[str], maximum: int) -> Iterator[tuple[Row, bytes]]:  # noqa: ARG001
    """Yield the rows of a heap block with longs as keys and values, in the void namespace."""
    (found_group,), at = struct.unpack_from(">i", data), 4
    assert_same("key group in front of its blocks", group, found_group)
    for _ in states:
        state, count = struct.unpack_from(">hi", data, at)
        at += 6
        for _ in range(count):
            assert at < len(data), "more entries are counted than there are"
            namespace, key, value = (
                data[at : at + 1],
                data[at + 1 : at + 1 + _LONG_BYTES],
                data[at + 1 + _LONG_BYTES :][:_LONG_BYTES],
            )
            at += 1 + 2 * _LONG_BYTES
            yield (states[state], group, key + namespace), value
    assert_same("end of the blocks", at, len(data))


def states_in(header: bytes) -> list[str]:
    """Return the names of the states; if an unknown serializer hides them, return all texts that look like names."""
    try:
        return [state.name for state in read_keyed_header(header, "header").states]
    except RescaleError:
        return keyed_state_names(header)

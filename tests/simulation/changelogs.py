"""Slow replay of a changelog over materialised rows, one change after the other.

All keys are longs in the void namespace; a row of a list has its elements joined by commas.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping

from rescale.flink.metadata.handles import ChangelogHandle, InMemoryChangelogHandle, Stream
from simulation.headers import keyed_header_with, keyed_state_names

_CLEAR, _SET, _SET_INTERNAL, _ADD, _ADD_ELEMENT, _METADATA = 0, 1, 2, 3, 5, 8
"""Codes of `StateChangeOperation`."""

_KEY_BYTES, _LONG_BYTES = 9, 8
"""Bytes of a key and its namespace, and of an element."""

_METADATA_GROUP = -1
"""Key group of descriptions of states (`AbstractStateChangeLogger.COMMON_KEY_GROUP`)."""

_LIST_STATE = re.compile(rb"\x00\x10KEYED_STATE_TYPE\x00\x04LIST")

Row = tuple[str, int, bytes]
Change = tuple[int, bytes]


def changes_of(handle: ChangelogHandle, content: Callable[[Stream], bytes]) -> Iterator[Change]:
    """Yield the key group and the bytes of each change, in order."""
    for delta in handle.delta:
        if isinstance(delta, InMemoryChangelogHandle):
            yield from ((change.key_group, change.data) for change in delta.changes)
            continue
        for offset, stream in delta.change_sets:
            yield from _changes_in_set_at(content(stream)[1:], offset)


def _changes_in_set_at(data: bytes, at: int) -> Iterator[Change]:
    (group_count,), at = struct.unpack_from(">i", data, at), at + 4
    for _ in range(group_count):
        (change_count, group), at = struct.unpack_from(">ii", data, at), at + 8
        for _ in range(change_count):
            (size,), at = struct.unpack_from(">i", data, at), at + 4
            yield group, data[at : at + size]
            at += size


def with_logged_states(header: bytes, changes: list[Change]) -> bytes:
    """Return the header of materialised state, followed by the states that are only in the log."""
    descriptions = [change[5:-5] for group, change in changes if group == _METADATA_GROUP]
    return keyed_header_with(header, descriptions)


def rows_after_replay(rows: Mapping[Row, bytes], changes: list[Change]) -> dict[Row, bytes]:
    replayed_rows, name_by_id, list_names = dict(rows), dict[int, str](), set[str]()
    for group, change in changes:
        if group == _METADATA_GROUP:
            assert change[0] == _METADATA
            (name,) = keyed_state_names(change)
            name_by_id[struct.unpack(">h", change[-3:-1])[0]] = name
            list_names |= {name} if _LIST_STATE.search(change) else set()
            continue
        operation, state_id = struct.unpack_from(">Bh", change)
        key, payload = change[3 : 3 + _KEY_BYTES], change[3 + _KEY_BYTES :]
        row = (name_by_id[state_id], group, key)
        if operation == _CLEAR:
            replayed_rows.pop(row, None)
        elif name_by_id[state_id] in list_names:
            elements = [payload] if operation == _ADD_ELEMENT else _listed_elements(payload)
            elements_before = [replayed_rows[row]] if operation in (_ADD, _ADD_ELEMENT) and row in replayed_rows else []
            replayed_rows[row] = b",".join([*elements_before, *elements])
        else:
            assert operation in (_SET, _SET_INTERNAL)
            replayed_rows[row] = payload
    return replayed_rows


def _listed_elements(payload: bytes) -> list[bytes]:
    (count,) = struct.unpack_from(">i", payload)
    assert len(payload) == 4 + count * _LONG_BYTES
    return [payload[at : at + _LONG_BYTES] for at in range(4, len(payload), _LONG_BYTES)]

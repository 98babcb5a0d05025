"""Reads the keys of an operator whose subtasks have a single key each. For other operators, only few bytes are read.

A subtask with a single key has entries in only one key group. Of canonical and heap streams, only the beginning of this
key group is read. For a RocksDB directory the MANIFEST holds the smallest and the largest row of each SST file:
if both begin with the same key, so does every row between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap import only_key
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.value_format import format_value
from rescale.flink.state_meta_info import StateKind
from rescale.snapshot.keyed_state import Database, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.errors import SnapshotError, UnsupportedError

MOST_SUBTASKS = 256
"""Largest number of subtasks of an operator that is read; at 64 KiB for each subtask, at most 16 MiB are read."""

_MOST_BYTES_OF_GROUP = 64 * 1024


class SingleKey(NamedTuple):
    """The only key of a subtask, as its serializer wrote it."""

    subtask: int
    key_group: int
    key: bytes


def single_keys(snapshot: Snapshot, operator: Operator) -> list[SingleKey]:
    """Return the only key of each subtask that has keys, in order of subtasks.

    The list is empty if a subtask has several keys, or state that cannot be read. Databases must be measured
    (`with_measured_databases`).
    """
    headers = operator.keyed_headers
    is_measured = all(database.measured_sizes for database in operator.databases) and not operator.changelogs
    if snapshot.missing_files or not is_measured or not 1 < len(headers) <= MOST_SUBTASKS or None in headers:
        return []
    filled_streams = [(stream, list(stream.filled_groups)) for stream in operator.keyed]
    if any(len(groups) > 1 for _, groups in filled_streams):
        return []
    only_keys = []
    try:
        for subtask, keys in _keys_of_subtasks(snapshot, operator, filled_streams):
            if len(keys) > 1:
                return []
            only_keys += [SingleKey(subtask, *key) for key in keys]
    except (SnapshotError, UnsupportedError):
        return []  # if a run needs the state, it raises this error
    return sorted(only_keys)


_KeyInGroup = tuple[int, bytes]
"""A key group, and a key in it."""

_FilledStream = tuple[KeyedStream, list[tuple[int, Extent]]]


def _keys_of_subtasks(
    snapshot: Snapshot, operator: Operator, filled_streams: list[_FilledStream]
) -> Iterator[tuple[int, set[_KeyInGroup]]]:
    """Yield (subtask, keys) for each key group or database of a subtask, with at most two keys."""
    for stream, groups in filled_streams:
        for key_group, extent in groups:
            yield stream.subtask, _keys_of_group(snapshot, operator, stream, key_group, extent)
    for database in operator.databases:
        yield database.subtask, _keys_of_database(operator, database)


def _keys_of_group(
    snapshot: Snapshot, operator: Operator, stream: KeyedStream, key_group: int, extent: Extent
) -> set[_KeyInGroup]:
    """Return the keys at the beginning of a key group, at most two."""
    from rescale.snapshot.key_sample import keys_of_group  # imports numpy, which few snapshots need

    header = stream.parsed
    assert header is not None  # `single_keys` reads only streams with a header
    if stream.framing is Framing.HEAP:
        return {(key_group, only_key(snapshot.contents.beginning(extent, _MOST_BYTES_OF_GROUP), header))}
    keys: set[_KeyInGroup] = set()
    for composite in keys_of_group(operator.max_parallelism, stream, snapshot.contents, key_group, extent):
        keys.add((key_group, _leading_key(header, composite)))
        if len(keys) > 1:
            break
    return keys


def _keys_of_database(operator: Operator, database: Database) -> set[_KeyInGroup]:
    """Return the keys of the smallest and the largest row of each SST file, until two different keys are found.

    Rows of timers are left out, because they begin with a timestamp.
    """
    header = database.parsed
    assert header is not None
    prefix = prefix_size(operator.max_parallelism)
    keys: set[_KeyInGroup] = set()
    for table in database.tables:
        if header.states[table.state_id].kind is not StateKind.PRIORITY_QUEUE:
            for row in (table.file.smallest_user_key, table.file.largest_user_key):
                keys.add((int.from_bytes(row[:prefix], "big"), _leading_key(header, row[prefix:])))
        if len(keys) > 1:
            break
    return keys


def _leading_key(header: KeyedHeader, composite: bytes) -> bytes:
    reader = ByteReader(composite)
    format_value(compile_program(header.key_serializer).tree, reader)
    return composite[: reader.position]

"""The keys of an operator whose subtasks have one each; at most a few bytes of any other operator are read.

Of canonical and heap streams the lengths of key groups tell where there may be just one key, and only then are their
beginnings read. Of a RocksDB directory the MANIFEST tells the smallest and the largest row of each SST file: where
these begin with the same key, so does everything between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap import only_key
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.value_words import in_words
from rescale.flink.state_meta_info import StateKind
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Database, KeyedStream, Operator, Snapshot

MOST_SUBTASKS = 256
"""Operators with more subtasks are not looked into: 64 KiB of each are 16 MiB."""

_OF_A_GROUP = 64 * 1024


class LoneKey(NamedTuple):
    """The only key of a subtask, as its serializer wrote it."""

    subtask: int
    key_group: int
    key: bytes


def lone_keys(snapshot: Snapshot, operator: Operator) -> list[LoneKey]:
    """By subtask; none if any subtask has several keys, or holds what cannot be read. Databases must be measured."""
    headers = operator.keyed_headers
    known = all(database.measured for database in operator.databases) and not operator.changelogs
    if snapshot.missing or not known or not 1 < len(headers) <= MOST_SUBTASKS or None in headers:
        return []
    filled = [(stream, list(stream.filled_groups)) for stream in operator.keyed]
    if any(len(groups) > 1 for _, groups in filled):
        return []
    found = []
    try:
        for subtask, keys in _keys(snapshot, operator, filled):
            if len(keys) > 1:
                return []
            found += [LoneKey(subtask, *key) for key in keys]
    except (SnapshotError, UnsupportedError):
        return []  # a run that has to understand the state will say why it does not
    return sorted(found)


_Key = tuple[int, bytes]
"""Key group, and the key."""

_Filled = tuple[KeyedStream, list[tuple[int, Extent]]]


def _keys(snapshot: Snapshot, operator: Operator, filled: list[_Filled]) -> Iterator[tuple[int, set[_Key]]]:
    """The keys of each subtask, at most two."""
    for stream, groups in filled:
        for key_group, extent in groups:
            yield stream.subtask, _keys_of_group(snapshot, operator, stream, key_group, extent)
    for database in operator.databases:
        yield database.subtask, _keys_of_database(operator, database)


def _keys_of_group(
    snapshot: Snapshot, operator: Operator, stream: KeyedStream, key_group: int, extent: Extent
) -> set[_Key]:
    """From the beginning of a key group."""
    from rescale.snapshot.key_sample import keys_of_group  # brings numpy, which few snapshots need

    header = stream.parsed
    assert header is not None  # or nobody would ask
    if stream.framing is Framing.HEAP:
        return {(key_group, only_key(snapshot.contents.beginning(extent, _OF_A_GROUP), header))}
    keys: set[_Key] = set()
    for composite in keys_of_group(operator.max_parallelism, stream, snapshot.contents, key_group, extent):
        keys.add((key_group, _leading_key(header, composite)))
        if len(keys) > 1:
            break
    return keys


def _keys_of_database(operator: Operator, database: Database) -> set[_Key]:
    """Of the smallest and the largest row of every SST file. Those of timers begin with a time and are left out."""
    header = database.parsed
    assert header is not None
    prefix = prefix_size(operator.max_parallelism)
    keys: set[_Key] = set()
    for table in database.tables:
        if header.states[table.state].kind is not StateKind.PRIORITY_QUEUE:
            for row in (table.file.smallest, table.file.largest):
                keys.add((int.from_bytes(row[:prefix], "big"), _leading_key(header, row[prefix:])))
        if len(keys) > 1:
            break
    return keys


def _leading_key(header: KeyedHeader, composite: bytes) -> bytes:
    reader = ByteReader(composite)
    in_words(compile_program(header.key_serializer).tree, reader)
    return composite[: reader.position]

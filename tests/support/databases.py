"""RocksDB directories of committed snapshots, with their expected rows from canonical savepoints of the same moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.metadata.handles import (
    FileStream,
    IncrementalHandle,
    InlineStream,
    RelativeFileStream,
    SegmentStream,
    Stream,
)
from rescale.flink.metadata.reader import read_metadata
from rescale.rocksdb.engine.directory import fetched_database
from rescale.rocksdb.engine.guarded_database import guarded_database
from rescale.rocksdb.engine.scan import StateRows
from rescale.rocksdb.stored_files import StoredFile
from support.canonical import prefix, read_group
from support.snapshots import FIXTURES, content, open_snapshot

Rows = dict[tuple[str, int, bytes], bytes]
"""Value by state, key group, and key without key group."""


class Stored(NamedTuple):
    """A database of a committed snapshot; `where` names it in assertions."""

    where: str
    max_parallelism: int
    key_groups: KeyGroupRange
    header: KeyedHeader
    files: tuple[StoredFile, ...]

    @property
    def states(self) -> list[str]:
        return [state.name for state in self.header.states]


@cache
def databases(name: str) -> tuple[Stored, ...]:
    """Return the databases of one committed snapshot, in the order of operators and subtasks."""
    folder = FIXTURES / name
    document = json.loads((folder / "expected.json").read_text())
    directory = folder / document["snapshot"]
    metadata = read_metadata((directory / "_metadata").read_bytes(), str(directory / "_metadata"))
    moved = (document["directory_prefix"], folder)
    return tuple(
        Stored(
            f"{name} {subtask.index}",
            operator.max_parallelism,
            KeyGroupRange(handle.first_key_group, handle.first_key_group + handle.key_group_count - 1),
            read_keyed_header(read_file(_file("meta", handle.meta, directory, moved)), name),
            tuple(_file(file.name, file.stream, directory, moved) for file in (*handle.shared, *handle.private)),
        )
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.state is not None and isinstance(handle := subtask.state.managed_keyed, IncrementalHandle)
    )


def _file(name: str, stream: Stream | None, directory: Path, moved: tuple[str | None, Path]) -> StoredFile:
    def place(absolute: str) -> Path:
        prefix, folder = moved
        assert prefix is not None
        return folder / Path(absolute.removeprefix("file:")).relative_to(prefix)

    match stream:
        case InlineStream():
            return StoredFile(name, str(directory / "_metadata"), len(stream.data), data=stream.data)
        case RelativeFileStream():
            return StoredFile(name, str(directory / stream.path), stream.size)
        case FileStream():
            return StoredFile(name, str(place(stream.path)), stream.size)
        case SegmentStream():
            return StoredFile(name, str(place(stream.path)), stream.size, start=stream.start)
    raise AssertionError(stream)


def read_file(file: StoredFile) -> bytes:
    return file.data if file.data is not None else Path(file.uri).read_bytes()[file.start : file.start + file.length]


@cache
def canonical_rows(name: str) -> Rows:
    """Return the rows of the canonical savepoint beside a snapshot; the names of states are unique in these jobs."""
    snapshot = open_snapshot(str(FIXTURES / name / "canonical"))
    rows: Rows = {}
    for operator in snapshot.operators:
        for stream in operator.keyed:
            assert stream.parsed is not None
            for extent in filter(None, stream.groups):
                for key_group, record in read_group(content(snapshot, extent), operator.max_parallelism):
                    state = stream.parsed.states[record.state].name
                    rows[state, key_group, record.key] = record.value
    return rows


def with_canonical() -> list[str]:
    """Return the RocksDB snapshots that have a canonical savepoint of the same moment."""
    names = [path.parent.name for path in sorted(FIXTURES.glob("*/canonical"))]
    return [name for name in names if databases(name)]


def read_rows(
    files: Sequence[StoredFile], states: Sequence[str], key_groups: KeyGroupRange, max_parallelism: int, scratch: Path
) -> Rows:
    """Return all rows of a database, read as a task reads them; check every batch before reading the next one."""
    rows: Rows = {}
    with fetched_database(files, scratch) as directory, guarded_database(directory, states) as database:
        for i, state in enumerate(states):
            for records in database.read(StateRows(max_parallelism, state, i, key_groups)):
                rows |= _checked_rows(records, state, i, max_parallelism)
    return rows


def _checked_rows(records: Records, state: str, state_id: int, max_parallelism: int) -> Rows:
    """Return the rows of a batch, after checking that its parts are adjacent, as `Records` requires."""
    data = records.data.tobytes()
    assert set(records.state_ids.tolist()) == {state_id}
    rows: Rows = {}
    begin = 0
    columns = (column.tolist() for column in (records.key_starts, records.key_ends, records.ends, records.groups))
    for start, limit, end, group in zip(*columns, strict=True):
        assert data[begin:start] == prefix(group, max_parallelism)
        assert int.from_bytes(data[limit : limit + 4], "big") == end - limit - 4
        rows[state, group, data[start:limit]] = data[limit + 4 : end]
        begin = end
    assert (len(rows), begin) == (len(records), len(data))
    return rows

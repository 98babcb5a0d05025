"""Rows in which two checkpoints of one RocksDB directory differ, found without reading the files that they share.

A key can only have changed if it has a row in a file that only one of the two checkpoints has: compactions move rows
from file to file, and drop only hidden or expired ones. So these files are read, except for those that, by the
MANIFEST, only compactions have rewritten. Files that were written and compacted away between the checkpoints are read,
too. Most of the rows were only moved, which their entries show (`changed_keys`). The values of all other keys are
looked up in both databases and compared, because entries do not show every change:

* RocksDB sets sequence numbers to 0 in the last level and drops deletes there, and Flink's TTL filter drops expired
  rows without a trace.
* An element added to a list changes a value whose other elements lie in other files.
* A range tombstone affects rows of any file, so within it all rows of both sides are compared.

A change is a record whose value has RocksDB's `ValueType` in front: `VALUE` and the new value, or `DELETION` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader, require_header
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.changes.changed_keys import OwnTable, changed_keys
from rescale.rocksdb.engine.changes.keys import Keys, joined_keys, keys_of
from rescale.rocksdb.engine.directory import DatabaseDirectory, partly_fetched_database
from rescale.rocksdb.engine.guarded_database import GuardedDatabase, guarded_database
from rescale.rocksdb.engine.lookup import KeysOfRange, rows_of_keys
from rescale.rocksdb.engine.partial_files import PartialFiles
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.snapshot.databases.live_tables import listed_files
from rescale.snapshot.locate import Extent
from rescale.snapshot.places import ChangePlace, ChangeSide
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.scratch import scratch_directory
from rescale.text.errors import SnapshotError

_KEYS_AT_ONCE = 1 << 14


class Changes(NamedTuple):
    """Changes of one state since the earlier checkpoint: the rows that were removed and added.

    Both sets of rows are sorted by key; a key whose value has changed is in both. The reader's next `Changes` overwrite
    these rows.
    """

    removed: Records
    added: Records


class ChangeReader:
    """Reads the changes of a place, state by state."""

    def __init__(self, max_parallelism: int, files: SnapshotFiles, place: ChangePlace[KeyedHeader | None]) -> None:
        self._max_parallelism = max_parallelism
        self._files = files
        self._place = place
        self._header = require_header(place.header)

    def changes(self) -> Iterator[Changes]:
        """Yield the changes, state by state, in the order of keys, a bounded number of bytes at a time."""
        with ExitStack() as stack:
            sides = (self._place.before, self._place.after)
            before, after = (stack.enter_context(self._open(side)) for side in sides)
            for state_id, state in enumerate(self._header.states):
                for keys in _key_windows(self._changed_keys(state.name, before, after)):
                    yield from differences(*(side.rows(state.name, state_id, keys) for side in (before, after)))

    @contextmanager
    def _open(self, side: ChangeSide[KeyedHeader | None] | None) -> Iterator[_OpenSide]:
        if side is None:
            yield _OpenSide(None, frozenset(), self._max_parallelism)
            return
        files, own = listed_files(self._files, side.database.files), frozenset(side.own)
        states = require_header(side.database.header).names
        with ExitStack() as stack:
            shared = [file.name for file in files if file.name.endswith(".sst") and file.name not in own]
            directory, parts = stack.enter_context(
                partly_fetched_database(files, Path(scratch_directory()), in_parts=shared)
            )
            opened = _OpenDatabase(
                directory,
                parts,
                checked_manifest(directory.files, directory.content, states),
                stack.enter_context(guarded_database(directory, states)),
                frozenset(states),
            )
            yield _OpenSide(opened, own, self._max_parallelism)

    def _changed_keys(self, state: str, before: _OpenSide, after: _OpenSide) -> Iterator[Keys]:
        """Return all keys that may have changed, in order."""
        key_groups, prefix = KeyGroupRange(*self._place.key_groups), prefix_size(self._max_parallelism)
        begin, end = key_groups.first.to_bytes(prefix, "big"), (key_groups.last + 1).to_bytes(prefix, "big")
        sides = (before, after)
        ranges = [(begin, end)]  # all keys of the side that has the state
        candidates: Iterator[Keys] = iter(())
        if before.has_state(state) and after.has_state(state):
            earlier, later = (side.own_tables(state) for side in sides)
            transient = list(self._transient_tables(state))
            tables = [*(own.table for own in (*earlier, *later)), *transient]
            ranges = _union(sorted(deleted for table in tables for deleted in _deleted_ranges(table, begin, end)))
            shared = [file for file in after.live_files(state) if file.name not in after.own]
            candidates = changed_keys(earlier, later, shared, begin, end, transient)
        if not ranges:
            return candidates
        return _merge_sorted(
            [(key for keys in candidates for key in keys), *(side.keys_of_ranges(state, ranges) for side in sides)]
        )

    def _transient_tables(self, state: str) -> Iterator[SstTable]:
        """Yield the SST files of a state that were written and compacted away between the checkpoints.

        Raises `SnapshotError` if a file belongs to another state.
        """
        for owner, name, extent in self._place.transient:
            if owner == state:
                (file,) = listed_files(self._files, [(name, extent)])
                table = SstTable(partial(_read_part, self._files, extent), extent.length, file.uri, extent.start)
                if (other := table.properties.column_family) != state:
                    raise SnapshotError("an SST file belongs to another state", path=file.uri, state=state, found=other)
                yield table


class ChangeRecords:
    """Changes from a `ChangeReader`, as records: a key with its new value or its deletion."""

    def __init__(self, reader: ChangeReader, max_parallelism: int) -> None:
        self._file_reader = reader
        self._prefix = prefix_size(max_parallelism)

    def __iter__(self) -> Iterator[Records]:
        for changes in self._file_reader.changes():
            yield self._records(changes)

    def check_all_read(self, accounted: int) -> None:
        """Check nothing, because RocksDB checks its own files and their blocks."""

    def _records(self, changes: Changes) -> Records:
        """Return a record for each key of some changes: its new value behind `VALUE`, or `DELETION`."""
        from rescale.execution.sources.change_loop import put_changes

        removed, added = changes
        most = len(removed) + len(added)
        size = sum(int((side.ends - side.starts).sum()) + len(side) * (self._prefix + 5) for side in changes)
        data = np.empty(size, np.uint8)
        starts, limits, ends, groups = (np.empty(most, np.int64) for _ in range(4))
        number = put_changes(
            removed.data,
            removed.starts,
            removed.limits,
            removed.groups,
            added.data,
            added.starts,
            added.limits,
            added.ends,
            added.groups,
            self._prefix,
            data,
            starts,
            limits,
            ends,
            groups,
        )
        states = np.full(most, (removed if len(removed) else added).states[0])
        return Records(data, starts, limits, ends, states, groups).only(slice(number))


class _OpenDatabase(NamedTuple):
    """A fetched directory, and its open database, which looks rows up."""

    directory: DatabaseDirectory
    parts: PartialFiles
    manifest: Manifest
    database: GuardedDatabase
    states: frozenset[str]


class _OpenSide:
    """A side of the comparison: a database, or none."""

    def __init__(self, opened: _OpenDatabase | None, own: frozenset[str], max_parallelism: int) -> None:
        self.own = own
        self._open = opened
        self._max_parallelism = max_parallelism

    def has_state(self, state: str) -> bool:
        return self._open is not None and state in self._open.states

    def rows(self, state: str, state_id: int, keys: Keys) -> Iterator[Records]:
        """Yield the live row of each key that has one."""
        if self._open is not None and state in self._open.states:
            self._open.parts.fetch(self.live_files(state), keys)
            yield from self._open.database.read(rows_of_keys(self._max_parallelism, state, state_id, keys))

    def live_files(self, state: str) -> Sequence[LiveFile]:
        """Return the SST files of a state."""
        families = () if self._open is None else self._open.manifest.column_families
        return next((family.files for family in families if family.name == state), ())

    def own_tables(self, state: str) -> list[OwnTable]:
        """Return the SST files of a state that only this side has."""
        if self._open is None:
            return []
        path, files = self._open.directory.path, {file.name: file for file in self._open.directory.files}
        own = [(live, files[live.name]) for live in self.live_files(state) if live.name in self.own]
        return [OwnTable(live, SstTable(_file_reader(path / live.name), file.length, file.uri)) for live, file in own]

    def keys_of_ranges(self, state: str, ranges: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
        """Yield the keys of all live rows in sorted, disjoint ranges.

        Opens a second database, since rows are looked up in the first one in between.
        """
        if self._open is not None and state in self._open.states and ranges:
            self._open.parts.fetch_all([file.name for file in self.live_files(state)])
            with guarded_database(self._open.directory, self._open.states) as database:
                for begin, end in ranges:
                    for keys in database.read(KeysOfRange(state, begin, end)):
                        yield from keys


def _deleted_ranges(table: SstTable, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the ranges that a file deletes, clipped to [begin, end)."""
    for deleted in table.range_tombstones():
        first, limit = max(begin, deleted.begin), min(end, deleted.end)
        if first < limit:
            yield first, limit


def _read_part(files: SnapshotFiles, extent: Extent, start: int, size: int) -> bytes:
    """Return `size` bytes of an extent, from the offset `start` in it."""
    return files.read(extent.part(start, size))


def _file_reader(path: Path) -> Callable[[int, int], bytes]:
    """Return a reader that opens the file for each read: there may be more files than a process may have open."""

    def read(start: int, size: int) -> bytes:
        with path.open("rb") as opened:
            return read_at(opened.fileno(), start, size)

    return read


def _union(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Join overlapping ranges, given and returned in the order of their beginnings."""
    joined: list[tuple[bytes, bytes]] = []
    for begin, end in ranges:
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _merge_sorted(iterators: Iterable[Iterator[bytes]]) -> Iterator[Keys]:
    """Merge the keys of all iterators; yield each key once."""
    merged = (key for key, _ in groupby(merge(*iterators)))
    while keys := list(islice(merged, _KEYS_AT_ONCE)):
        yield keys_of(keys)


def _key_windows(batches: Iterable[Keys]) -> Iterator[Keys]:
    """Yield the same keys, up to `_KEYS_AT_ONCE` at a time, which one request looks up."""
    gathered: list[Keys] = []
    for keys in batches:
        gathered.append(keys)
        if sum(len(part.ends) for part in gathered) >= _KEYS_AT_ONCE:
            yield from _split_keys(gathered)
            gathered = []
    yield from _split_keys(gathered)


def _split_keys(parts: Sequence[Keys]) -> Iterator[Keys]:
    if parts:
        keys = joined_keys(parts)
        for begin in range(0, len(keys.ends), _KEYS_AT_ONCE):
            yield keys.part(begin, min(begin + _KEYS_AT_ONCE, len(keys.ends)))


def differences(before: Iterator[Records], after: Iterator[Records]) -> Iterator[Changes]:
    """Yield the differences of two sequences of rows that are sorted by their keys."""
    from rescale.execution.sources.change_loop import mark_differences

    old, new = next(before, None), next(after, None)
    while old is not None or new is not None:
        removed, added = (np.zeros(0 if side is None else len(side), np.bool_) for side in (old, new))
        done = mark_differences(*_columns_of(old), *_columns_of(new), old is None, new is None, removed, added)
        changes = Changes(
            *(
                (_NO_RECORDS if side is None else side.only(slice(number)).only(flags[:number]))
                for side, number, flags in zip((old, new), done, (removed, added), strict=True)
            )
        )
        if len(changes.removed) or len(changes.added):
            yield changes
        old, new = (
            None if side is None else side.only(slice(number, None)) if number < len(side) else next(source, None)
            for side, number, source in zip((old, new), done, (before, after), strict=True)
        )


_NO_RECORDS = Records(np.empty(0, np.uint8), *(np.empty(0, np.int64) for _ in range(5)))


def _columns_of(records: Records | None) -> tuple[Bytes, Longs, Longs, Longs, Longs]:
    rows = _NO_RECORDS if records is None else records
    return rows.data, rows.starts, rows.limits, rows.ends, rows.groups

"""Finds the rows in which two checkpoints of one RocksDB directory differ, without reading the files that both have.

A key can only have changed if it has a row in a file that only one of the two checkpoints has: compactions move rows
from file to file, and drop only hidden or expired rows. So these files are read, except for files that, by the
MANIFEST, only compactions have rewritten. Files that were written and compacted away between the checkpoints are read,
too. Most of their rows were only moved, which the entries in the files show (`changed_keys`). The values of all other
keys are looked up in both databases and compared, because entries do not show every change:

* RocksDB sets sequence numbers to 0 in the last level and drops deletes there, and Flink's TTL filter drops expired
  rows without a trace.
* An element added to a list changes a value whose other elements lie in other files.
* A range tombstone deletes rows of any file, so all rows of both checkpoints in its range are compared.

A change is a record whose value has RocksDB's `ValueType` in front: `VALUE` and the new value, or `DELETION` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from heapq import merge
from itertools import groupby, islice

import numpy as np

from rescale.execution.sources.compared_database import ComparedDatabase, compared_database
from rescale.execution.sources.row_differences import Changes, differences
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader, require_header
from rescale.rocksdb.engine.changes.changed_keys import changed_keys
from rescale.rocksdb.engine.changes.keys import Keys, joined_keys, keys_of
from rescale.rocksdb.sst.table import SstTable
from rescale.snapshot.databases.live_tables import listed_files
from rescale.snapshot.locate import Extent
from rescale.snapshot.places import ChangePlace
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import SnapshotError

_KEYS_AT_ONCE = 1 << 14


class ChangeReader:
    """Reads the changes between the two checkpoints of a `ChangePlace`, state by state."""

    def __init__(self, max_parallelism: int, files: SnapshotFiles, place: ChangePlace[KeyedHeader | None]) -> None:
        self._max_parallelism = max_parallelism
        self._files = files
        self._place = place
        self._header = require_header(place.header)

    def changes(self) -> Iterator[Changes]:
        """Yield the changes, state by state, in the order of keys, a bounded number of bytes at a time."""
        with ExitStack() as stack:
            open_side = partial(compared_database, files=self._files, max_parallelism=self._max_parallelism)
            databases = [
                None if side is None else stack.enter_context(open_side(side))
                for side in (self._place.before, self._place.after)
            ]
            for state_id, state in enumerate(self._header.states):
                before, after = (side if side is not None and state.name in side.states else None for side in databases)
                for keys in _key_windows(self._changed_keys(state.name, before, after)):
                    rows = (
                        iter(()) if side is None else side.rows(state.name, state_id, keys) for side in (before, after)
                    )
                    yield from differences(*rows)

    def _changed_keys(
        self, state: str, before: ComparedDatabase | None, after: ComparedDatabase | None
    ) -> Iterator[Keys]:
        """Return all keys of a state that may have changed, in order.

        `before` or `after` is None if that checkpoint does not have the state.
        """
        key_groups, prefix = KeyGroupRange(*self._place.key_groups), prefix_size(self._max_parallelism)
        begin, end = key_groups.first.to_bytes(prefix, "big"), (key_groups.last + 1).to_bytes(prefix, "big")
        ranges = [(begin, end)]  # all keys, if only one side has the state
        candidates: Iterator[Keys] = iter(())
        if before is not None and after is not None:
            earlier, later = before.own_tables(state), after.own_tables(state)
            transient = list(self._transient_tables(state))
            tables = [*(own.table for own in (*earlier, *later)), *transient]
            ranges = _union(sorted(deleted for table in tables for deleted in _deleted_ranges(table, begin, end)))
            shared = [file for file in after.live_files(state) if file.name not in after.own]
            candidates = changed_keys(earlier, later, shared, begin, end, transient)
        if not ranges:
            return candidates
        in_ranges = (side.keys_of_ranges(state, ranges) for side in (before, after) if side is not None)
        return _merge_sorted([(key for keys in candidates for key in keys), *in_ranges])

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

    def check_all_read(self, framed_bytes: int) -> None:
        """Check nothing, because RocksDB checks its own files and their blocks."""

    def _records(self, changes: Changes) -> Records:
        """Return a record for each changed key. Its value is `VALUE` followed by the new value, or `DELETION`."""
        from rescale.execution.sources.change_loop import put_changes

        removed, added = changes
        most = len(removed) + len(added)
        size = sum(int((side.ends - side.starts).sum()) + len(side) * (self._prefix + 5) for side in changes)
        data = np.empty(size, np.uint8)
        starts, key_ends, ends, groups = (np.empty(most, np.int64) for _ in range(4))
        number = put_changes(
            removed.data,
            removed.starts,
            removed.key_ends,
            removed.groups,
            added.data,
            added.starts,
            added.key_ends,
            added.ends,
            added.groups,
            self._prefix,
            data,
            starts,
            key_ends,
            ends,
            groups,
        )
        states = np.full(most, (removed if len(removed) else added).states[0])
        return Records(data, starts, key_ends, ends, states, groups).only(slice(number))


def _deleted_ranges(table: SstTable, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the ranges that a file deletes, clipped to [begin, end)."""
    for deleted in table.range_tombstones():
        first, limit = max(begin, deleted.begin), min(end, deleted.end)
        if first < limit:
            yield first, limit


def _read_part(files: SnapshotFiles, extent: Extent, start: int, size: int) -> bytes:
    return files.read(extent.part(start, size))


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
    """Yield the keys of `batches` in batches of up to `_KEYS_AT_ONCE`, each of which one request looks up."""
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

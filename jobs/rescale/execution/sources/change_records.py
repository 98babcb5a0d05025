"""Finds the rows in which two checkpoints of one RocksDB directory differ, without scanning the files that both have.

A key can only have changed if it has a row in a file that only one of the two checkpoints has: new rows are written to
new files, and compactions move rows from file to file, and drop only hidden or expired rows. So these files are read.
Files that, by the MANIFEST, only compactions have rewritten are skipped (`unshared_tables`). The transient files, which
were written and compacted away between the checkpoints, are read in their place.

Most rows in the files that are read were only moved, which their entries show (`changed_keys`). The other keys have
changed, or may have:

* If the newest entry of a key is a value or a deletion, and newer than all entries of the earlier checkpoint, it is
  itself the change of the key.
* If an element was added to a list, its other elements may lie in any file, so the list is looked up in the later
  checkpoint.
* All other keys are looked up in both checkpoints, and their values compared, because entries do not show every change:
  RocksDB sets sequence numbers to 0 in the last level and drops deletions there, and Flink's TTL filter drops expired
  rows without a trace.
* A range tombstone deletes rows of any file, so all rows of both checkpoints in its range are compared.

A change is a record whose value has RocksDB's `ValueType` in front: `VALUE` and the new value, or `DELETION` alone. A
key that was written between the checkpoints may be a change even if it has its earlier value again, or had no row
before it was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from heapq import merge
from itertools import groupby, islice

import numpy as np

from rescale.execution.sources.compared_database import ComparedDatabase, compared_database
from rescale.execution.sources.row_differences import change_records, decided_records, differences
from rescale.flink.advice import TAKE_ANOTHER_SNAPSHOT
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader, require_header
from rescale.rocksdb.engine.changes.changed_keys import Candidates, changed_keys
from rescale.rocksdb.engine.changes.entries import Entries
from rescale.rocksdb.engine.changes.keys import Keys, joined_keys, keys_of
from rescale.rocksdb.key_range import key_range
from rescale.rocksdb.manifest.version_edit import ABOVE_ALL_SEQUENCES, VALUE
from rescale.rocksdb.sst.table import SstTable
from rescale.snapshot.databases.table_sizes import open_extent
from rescale.snapshot.places import ChangePlace
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import SnapshotError
from rescale.text.units import counted

_KEYS_AT_ONCE = 1 << 14


class ChangeReader:
    """Reads the changes between the two checkpoints of a `ChangePlace`, state by state, as `RecordBatches`.

    Every `check_every`-th change that was taken from an entry alone is also looked up in the later checkpoint; 0 means
    that none is. Raises `SnapshotError` if RocksDB finds another value.
    """

    def __init__(
        self,
        max_parallelism: int,
        files: SnapshotFiles,
        place: ChangePlace[KeyedHeader | None],
        check_every: int = 0,
    ) -> None:
        self._max_parallelism = max_parallelism
        self._files = files
        self._place = place
        self._header = require_header(place.header)
        self._check_every = check_every

    def __iter__(self) -> Iterator[Records]:
        """Yield the changes, state by state, a bounded number of bytes at a time."""
        with ExitStack() as stack:
            open_side = partial(compared_database, files=self._files, max_parallelism=self._max_parallelism)
            databases = [
                None if side is None else stack.enter_context(open_side(side))
                for side in (self._place.before, self._place.after)
            ]
            for state_id, state in enumerate(self._header.states):
                before, after = (side if side is not None and state.name in side.states else None for side in databases)
                yield from self._changes_of_state(state.name, state_id, before, after)

    def check_all_read(self, framed_bytes: int) -> None:
        """Check nothing, because RocksDB checks its own files and their blocks."""

    def _changes_of_state(
        self, state: str, state_id: int, before: ComparedDatabase | None, after: ComparedDatabase | None
    ) -> Iterator[Records]:
        prefix_length = prefix_size(self._max_parallelism)
        undecided_keys, merge_keys = list[Keys](), list[Keys]()

        def look_up(keys_to_look_up: list[Keys], earlier: ComparedDatabase | None) -> Iterator[Records]:
            """Yield the changes of the keys from `earlier` (None: no rows) to the later checkpoint."""
            for keys in _key_batches(keys_to_look_up):
                rows_of_sides = (
                    iter(()) if side is None else side.rows(state, state_id, keys) for side in (earlier, after)
                )
                value_count = 0
                for changes in differences(*rows_of_sides):
                    yield change_records(changes, prefix_length)
                    value_count += len(changes.added)
                if keys_to_look_up is merge_keys and value_count != len(keys.ends):
                    raise self._value_mismatch(state, after, len(keys.ends), f"{value_count} values")
            keys_to_look_up.clear()

        for candidates in self._candidates(state, before, after):
            if len(candidates.decided):
                assert after is not None
                yield decided_records(candidates.decided, state_id, prefix_length)
                self._check_decided(candidates.decided, after, state, state_id)
            for waiting_keys, keys, earlier in (
                (undecided_keys, candidates.undecided, before),
                (merge_keys, candidates.merged, None),
            ):
                if len(keys.ends):
                    waiting_keys.append(keys)
                if sum(len(keys.ends) for keys in waiting_keys) >= _KEYS_AT_ONCE:
                    yield from look_up(waiting_keys, earlier)
        yield from look_up(undecided_keys, before)
        yield from look_up(merge_keys, None)

    def _candidates(
        self, state: str, before: ComparedDatabase | None, after: ComparedDatabase | None
    ) -> Iterator[Candidates]:
        """Return all keys of a state that may have changed, in order.

        `before` or `after` is None if that checkpoint does not have the state.
        """
        all_keys = key_range(KeyGroupRange(*self._place.key_groups), self._max_parallelism)
        begin, end = all_keys.begin, all_keys.end
        ranges = [(begin, end)]  # all keys, if only one side has the state
        candidates: Iterator[Candidates] = iter(())
        if before is not None and after is not None:
            earlier_tables, later_tables = before.unshared_tables(state), after.unshared_tables(state)
            transient_tables = list(self._transient_tables(state))
            tables = [*(own_table.table for own_table in (*earlier_tables, *later_tables)), *transient_tables]
            ranges = _join_ranges(
                sorted(deleted_range for table in tables for deleted_range in _deleted_ranges(table, begin, end))
            )
            shared_files = [file for file in after.live_files(state) if file.name not in after.own_names]
            # A range tombstone may hide the newest entry of a key, so with one, no entry decides alone.
            last_sequence = ABOVE_ALL_SEQUENCES if ranges else before.last_sequence
            candidates = changed_keys(
                earlier_tables, later_tables, shared_files, begin, end, last_sequence, transient_tables
            )
        if not ranges:
            return candidates
        keys_in_ranges = (side.keys_of_ranges(state, ranges) for side in (before, after) if side is not None)
        keys = (key for part in candidates for key in part.undecided)
        return (Candidates(key_batch) for key_batch in _merge_sorted([keys, *keys_in_ranges]))

    def _check_decided(self, decided: Entries, after: ComparedDatabase, state: str, state_id: int) -> None:
        """Look up every `check_every`-th entry in the later checkpoint, and compare."""
        if not self._check_every:
            return
        checked_entries = decided.select(np.arange(0, len(decided), self._check_every))
        prefix_length = prefix_size(self._max_parallelism)
        levels = [file.level for file in after.live_files(state) if file.name in after.own_names]
        deepest_level = None if self._place.transient else max(levels)
        actual_rows = after.rows(state, state_id, checked_entries.key_column, deepest_level)
        found_changes = [
            bytes(change_records(changes, prefix_length).data) for changes in differences(iter(()), actual_rows)
        ]
        expected = decided_records(checked_entries.select(checked_entries.kinds == VALUE), state_id, prefix_length)
        if b"".join(found_changes) != bytes(expected.data):
            raise self._value_mismatch(state, after, len(expected), "another value, or a key too few or too many")

    def _value_mismatch(
        self, state: str, after: ComparedDatabase | None, key_count: int, difference: str
    ) -> SnapshotError:
        """Return the error for keys whose values are not those of their newest entries."""
        return SnapshotError(
            "RocksDB finds other values than the newest entries of the keys",
            path=None if after is None else after.directory.files[0].uri,
            state=state,
            expected=f"the values of {counted(key_count, 'key')}, as in the SST files",
            found=difference,
            advice=TAKE_ANOTHER_SNAPSHOT,
        )

    def _transient_tables(self, state: str) -> Iterator[SstTable]:
        """Yield the SST files of a state that were written and compacted away between the checkpoints.

        Raises `SnapshotError` if a file belongs to another state.
        """
        for owning_state, _, extent in self._place.transient:
            if owning_state == state:
                table = open_extent(extent, self._files)
                if (other_state := table.properties.column_family) != state:
                    raise SnapshotError(
                        "an SST file belongs to another state", path=table.path, state=state, found=other_state
                    )
                yield table


def _deleted_ranges(table: SstTable, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the ranges that a file deletes, clipped to [begin, end)."""
    for tombstone in table.range_tombstones():
        clipped_begin, clipped_end = max(begin, tombstone.begin), min(end, tombstone.end)
        if clipped_begin < clipped_end:
            yield clipped_begin, clipped_end


def _join_ranges(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Join overlapping ranges, given and returned in the order of their beginnings."""
    disjoint_ranges: list[tuple[bytes, bytes]] = []
    for begin, end in ranges:
        if disjoint_ranges and begin <= disjoint_ranges[-1][1]:
            disjoint_ranges[-1] = (disjoint_ranges[-1][0], max(disjoint_ranges[-1][1], end))
        else:
            disjoint_ranges.append((begin, end))
    return disjoint_ranges


def _merge_sorted(iterators: Iterable[Iterator[bytes]]) -> Iterator[Keys]:
    """Merge the keys of all iterators; yield each key once."""
    unique_keys = (key for key, _ in groupby(merge(*iterators)))
    while keys := list(islice(unique_keys, _KEYS_AT_ONCE)):
        yield keys_of(keys)


def _key_batches(parts: Sequence[Keys]) -> Iterator[Keys]:
    """Yield the keys of all parts in batches of up to `_KEYS_AT_ONCE`, each of which one request looks up."""
    if parts:
        keys = joined_keys(parts)
        for begin in range(0, len(keys.ends), _KEYS_AT_ONCE):
            yield keys.part(begin, min(begin + _KEYS_AT_ONCE, len(keys.ends)))

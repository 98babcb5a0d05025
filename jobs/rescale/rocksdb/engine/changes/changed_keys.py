"""Finds candidates: the keys whose live values may differ between two databases that share most of their files.

Only files that the databases do not share are read. Compiled loops decode their entries and merge them by key
(`entry_loop`). Compactions move most rows from file to file unchanged; a key with only such rows is no candidate.

A value or deletion that is newer than all entries of the earlier database decides the live value of its key, whatever
the shared files hold. A newer merge operand, such as an element that was added to a list, shows that the key has
changed; its value is looked up in the later database. All other candidates must be looked up in both databases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.rocksdb.engine.changes.entries import NO_ENTRIES, Entries, joined_entries
from rescale.rocksdb.engine.changes.entry_batches import entry_batches, unsorted_file_error
from rescale.rocksdb.engine.changes.keys import NO_KEYS, Keys, keys_of
from rescale.rocksdb.manifest.version_edit import ABOVE_ALL_SEQUENCES, MERGE, LiveFile
from rescale.rocksdb.sst.table import SstTable


class Candidates(NamedTuple):
    """Keys whose live values may differ between two databases, in order; each key is in one of the three fields.

    An entry of `decided` is the live value of its key in the later database, or its deletion. `merged` keys have a new
    value, which RocksDB joins from several entries. For `undecided` keys, the entries do not show whether the value
    differs.
    """

    undecided: Keys
    decided: Entries = NO_ENTRIES
    merged: Keys = NO_KEYS


class UnsharedTable(NamedTuple):
    """An SST file that only one of the two databases has, with its MANIFEST entry."""

    file: LiveFile
    table: SstTable


def changed_keys(
    earlier_tables: Sequence[UnsharedTable],
    later_tables: Sequence[UnsharedTable],
    shared_files: Sequence[LiveFile],
    begin: bytes,
    end: bytes,
    last_sequence: int,
    transient_tables: Sequence[SstTable] = (),
) -> Iterator[Candidates]:
    """Yield the candidates in [begin, end), in order, each once.

    `earlier_tables` are the files that only the earlier database has, `later_tables` those that only the later one has,
    and `shared_files` all other files of the later database. The shared files have the same rows as the other files of
    the earlier database, except for keys in the `transient_tables`, which were flushed after the earlier checkpoint and
    compacted away before the later one. `last_sequence` is at least the sequence number of every entry in the earlier
    database. Range tombstones are ignored. Raises `SnapshotError` for a damaged file, and `UnsupportedError` for a file
    with an unsupported format.
    """
    from rescale.rocksdb.engine.changes import entry_loop

    runs = [_SortedRun(tables, False) for tables in _runs(earlier_tables)] + [
        _SortedRun(tables, True) for tables in (*_runs(later_tables), *([table] for table in transient_tables))
    ]
    range_bounds, oldest_sequences = _oldest_sequences(shared_files)
    begin_key = np.frombuffer(bytearray(begin), np.uint8)
    for run in runs:
        run.skip_to(begin_key)
    while True:
        end_of_batch = min((run.last_key for run in runs if not run.is_at_end), default=end)
        is_last_batch = end_of_batch >= end
        end_key = np.frombuffer(bytearray(min(end_of_batch, end)), np.uint8)
        parts = [(run, part) for run in runs if len((part := run.take_before(end_key)).key_ends)]
        if parts:
            entries = joined_entries([part for _, part in parts])
            run_ends = np.cumsum([len(part.key_ends) for _, part in parts], dtype=np.int64)
            run_starts = np.append(np.int64(0), run_ends[:-1])
            is_later = np.array([run.is_later for run, _ in parts], np.int64)
            changed_indices, newer_indices = (np.empty(int(run_ends[-1]), np.int64) for _ in range(2))
            changed_count = entry_loop.changed_keys(
                entries.data,
                entries.keys,
                entries.key_starts,
                entries.key_ends,
                entries.trailers,
                entries.value_starts,
                entries.value_ends,
                run_starts,
                run_ends,
                is_later,
                range_bounds.data,
                range_bounds.ends,
                oldest_sequences,
                last_sequence,
                changed_indices,
                newer_indices,
            )
            if changed_count:
                is_newer = newer_indices[:changed_count] >= 0
                undecided, decided = (
                    entries.select(changed_indices[:changed_count][~is_newer]),
                    entries.select(newer_indices[:changed_count][is_newer]),
                )
                is_merged = decided.kinds == MERGE
                yield Candidates(undecided.key_column, decided.select(~is_merged), decided.select(is_merged).key_column)
        if is_last_batch:
            return


class _SortedRun:
    """Reader of the entries of files with ascending, disjoint key ranges, which decodes a few blocks at a time."""

    def __init__(self, tables: Sequence[SstTable], is_later: bool) -> None:
        self.is_later = is_later
        self.is_at_end = False
        self._batches = (batch for table in tables for batch in entry_batches(table))
        self.last_key = b""
        """Last decoded key: more entries of this key may follow, but none of a smaller key."""
        self._path = tables[0].path
        self._entries = NO_ENTRIES
        self._fill()

    def skip_to(self, key: Bytes) -> None:
        while not self.is_at_end and self.last_key < key.tobytes():
            self._entries = NO_ENTRIES
            self._fill()
        self.take_before(key)

    def take_before(self, key: Bytes) -> Entries:
        """Return the decoded entries of keys before `key`, then decode further entries."""
        from rescale.rocksdb.engine.changes.entry_loop import first_at_least

        entries = self._entries
        count = int(first_at_least(entries.keys, entries.key_starts, entries.key_ends, key))
        self._entries = entries.part(count, len(entries.key_ends))
        self._fill()
        return entries.part(0, count)

    def _fill(self) -> None:
        """Decode blocks until there are entries of two keys: only then all entries of the first key are decoded."""
        while not self.is_at_end and (not len(self._entries.key_ends) or self._entries.key(0) == self.last_key):
            batch = next(self._batches, None)
            if batch is None:
                self.is_at_end = True
            elif len(batch.key_ends):
                self._append(batch)

    def _append(self, batch: Entries) -> None:
        if batch.key(0) < self.last_key:
            raise unsorted_file_error(self._path)
        self._entries = joined_entries([self._entries, batch]) if len(self._entries.key_ends) else batch
        self.last_key = batch.key(-1)


def _runs(tables: Sequence[UnsharedTable]) -> list[list[SstTable]]:
    """Return sorted runs: the files of each level, ordered by key. Files of level 0 overlap, so each is its own run."""
    runs: dict[tuple[int, int], list[SstTable]] = {}
    for table in sorted(tables, key=lambda table: (table.file.level, table.file.smallest_user_key)):
        runs.setdefault((table.file.level, table.file.number if table.file.level == 0 else 0), []).append(table.table)
    return list(runs.values())


def _oldest_sequences(files: Sequence[LiveFile]) -> tuple[Keys, Longs]:
    """Return sorted bounds, and the smallest sequence number above 0 that rows from each bound to the next may have.

    The sequence numbers and key ranges are those of the MANIFEST entries `files`.
    """
    ranges = sorted(
        (file.smallest_user_key, file.largest_user_key + b"\0", max(1, file.smallest_sequence))
        for file in files
        if file.largest_sequence > 0
    )
    range_bounds = sorted({bound for begin, end, _ in ranges for bound in (begin, end)})
    oldest_sequences, open_ranges, next_range = [], list[tuple[int, bytes]](), 0
    for bound in range_bounds:
        while next_range < len(ranges) and ranges[next_range][0] <= bound:
            _, end, sequence = ranges[next_range]
            heappush(open_ranges, (sequence, end))
            next_range += 1
        while open_ranges and open_ranges[0][1] <= bound:
            heappop(open_ranges)
        oldest_sequences.append(open_ranges[0][0] if open_ranges else ABOVE_ALL_SEQUENCES)
    return keys_of(range_bounds), np.array(oldest_sequences, np.int64)

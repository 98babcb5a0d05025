"""Sources of an operator's records, in parts that a task reads at once, whatever the kind of state.

A *kind* of state has a place class and a class that reads the records there. Only this module chooses between kinds:
callers ask a `SourceReader` for the batches of a `RecordSource`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from rescale.execution.meter import METER
from rescale.execution.sources.block_records import BlockRecords
from rescale.execution.sources.change_records import ChangePlace, ChangeReader, ChangeRecords
from rescale.execution.sources.changelog_records import ChangelogRecords, InWindows, Windows
from rescale.execution.sources.database_records import DatabaseRecords
from rescale.execution.sources.group_records import GroupRecords
from rescale.execution.sources.spans import group_runs
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks.records import MOST_UNKNOWN_STATES, RecordReader, Records, framed_size
from rescale.flink.keyed.header import KeyedHeader, is_compressed, understood
from rescale.flink.keyed.heap.heap_reader import HeapReader
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.timer_reader import TimerReader
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Changelog, ChangeSet, Database, KeyedHolder, KeyedStream
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import SnapshotError


class GroupPlace(NamedTuple):
    """Key groups of one stream in canonical framing, end to end."""

    compressed: bool
    groups: tuple[tuple[int, Extent], ...]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.groups)


class DatabasePlace(NamedTuple):
    """A RocksDB directory by its files, which holds the key groups from first to last."""

    files: tuple[tuple[str, Extent], ...]
    key_groups: tuple[int, int]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.files)


class TimerPlace(NamedTuple):
    """Key groups of one stream of raw keyed timers, end to end."""

    groups: tuple[tuple[int, Extent], ...]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.groups)


class HeapPlace(NamedTuple):
    """Key groups of one stream in heap framing, end to end."""

    groups: tuple[tuple[int, Extent], ...]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.groups)


class ChangelogPlace(NamedTuple):
    """A changelog of the key groups from first to last: sources of the materialised state, and the later changes.

    `log_size` counts the bytes of the changes.
    """

    base: tuple[RecordSource, ...]
    changes: tuple[ChangeSet, ...]
    key_groups: tuple[int, int]
    log_size: int

    @property
    def size(self) -> int:
        return self.log_size + sum(part.size for part in self.base)


RecordPlace = GroupPlace | DatabasePlace | TimerPlace | HeapPlace | ChangelogPlace | ChangePlace


class RecordSource(NamedTuple):
    """Records of an operator with the given `max_parallelism`.

    `header` names their states, None if it is not understood. A canonical stream can be read without a header; it only
    needs the `number_of_states`, if that is known.
    """

    place: RecordPlace
    max_parallelism: int
    number_of_states: int | None
    header: KeyedHeader | None

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return self.place.size

    @property
    def key_groups_counted(self) -> int:
        """Number of key groups with records, 0 for places that do not list them."""
        return len(self.place.groups) if isinstance(self.place, GroupPlace) else 0

    @property
    def states(self) -> tuple[list[str], list[bool]]:
        """Names of the states by state id, numbered where unknown, and whether each is a map."""
        if self.header is None:
            return [f"state {i}" for i in range(MOST_UNKNOWN_STATES)], [False] * MOST_UNKNOWN_STATES
        states = self.header.states
        return [state.name for state in states], [state.state_type == "MAP" for state in states]


class RecordBatches(Protocol):
    """Records of a source, in order; each batch is overwritten by the next one."""

    def __iter__(self) -> Iterator[Records]:
        """Yield batches; errors name the file and the place in it."""

    def check_all_read(self, accounted: int) -> None:
        """After reading all batches: `IntegrityError` unless `accounted` counts the bytes of all records, framed."""


class _Counted:
    """Batches whose records the meter counts."""

    def __init__(self, batches: RecordBatches) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Records]:
        for records in self._batches:
            METER.saw(len(records))
            yield records

    def check_all_read(self, accounted: int) -> None:
        self._batches.check_all_read(accounted)


class SourceReader:
    """Reads sources of the snapshot with these `files`; `UnsupportedError` where the records' boundaries are unknown.

    Sources are read one after the other, with the same buffers. Batches have `times` the usual size. With
    `whole_entries`, an entry of heap state is one record, as in the heap's own format.
    """

    def __init__(self, files: SnapshotFiles, *, times: int = 1, whole_entries: bool = False) -> None:
        self._files = files
        self._times = times
        self._whole_entries = whole_entries
        self._groups: tuple[tuple[int, int | None], RecordReader] | None = None
        self._timers: tuple[tuple[int, KeyedHeader], TimerReader] | None = None
        self._heap: tuple[tuple[int, KeyedHeader], HeapReader] | None = None

    def batches(self, source: RecordSource) -> RecordBatches:
        """Return the batches of a source, to be read before the next source's."""
        return _Counted(self._batches(source))

    def _batches(self, source: RecordSource) -> RecordBatches:
        match source.place:
            case GroupPlace(compressed, groups):
                return GroupRecords(self._group_reader(source), self._files, groups, compressed=compressed)
            case DatabasePlace(files, key_groups):
                return self._rows(source, files, key_groups)
            case TimerPlace(groups):
                return BlockRecords(self._timer_reader(source), self._files, groups)
            case HeapPlace(groups):
                return BlockRecords(self._heap_reader(source), self._files, groups)
            case ChangelogPlace(base, changes, key_groups, _):
                header = understood(source.header)
                parts = partial(self._base_parts, base, header)
                return ChangelogRecords(header, source.max_parallelism, self._files, changes, key_groups, parts)
            case ChangePlace():
                max_parallelism = source.max_parallelism
                return ChangeRecords(
                    ChangeReader(max_parallelism, self._files, source.place, understood(source.header)), max_parallelism
                )

    def _base_parts(self, base: Sequence[RecordSource], header: KeyedHeader, windows: Windows) -> list[InWindows]:
        return [self._in_windows(part, header, windows) for part in base]

    def _in_windows(self, part: RecordSource, header: KeyedHeader, windows: Windows) -> InWindows:
        """Yield the materialised records of each window, with the state ids of `header`."""
        numbers = {state.name: i for i, state in enumerate(header.states)}
        states = [state.name for state in understood(part.header).states]
        if unknown := [state for state in states if state not in numbers]:
            raise SnapshotError(
                "the materialised part of a changelog has a state that the changelog's header does not have",
                state=unknown[0],
                expected=", ".join(numbers),
                found=", ".join(states),
                advice=Advice(SAME_COMMAND, ": it was misread, or the source has changed"),
            )
        ids = np.array([numbers[state] for state in states], np.int64)
        if isinstance(part.place, DatabasePlace):
            batches_by_window = self._rows(part, part.place.files, part.place.key_groups).in_ranges(windows)
        else:
            batches_by_window = (self._in_window(part, own) for own in windows)
        for batches in batches_by_window:
            yield (replace(records, states=ids[records.states]) for records in batches)

    def _in_window(self, part: RecordSource, own: KeyGroupRange) -> Iterator[Records]:
        """Yield the records of a part of a stream that lie in the given key groups."""
        assert isinstance(part.place, GroupPlace | HeapPlace)
        groups = tuple(group for group in part.place.groups if group[0] in own)
        if not groups:
            return
        batches = self._batches(part._replace(place=part.place._replace(groups=groups)))
        accounted = 0
        for records in batches:
            accounted += framed_size(records, part.max_parallelism)
            yield records
        batches.check_all_read(accounted)

    def _group_reader(self, source: RecordSource) -> RecordReader:
        made_for = (source.max_parallelism, source.number_of_states)
        if self._groups is None or self._groups[0] != made_for:
            self._groups = made_for, RecordReader(*made_for, times=self._times)
        return self._groups[1]

    def _rows(
        self, source: RecordSource, files: Sequence[tuple[str, Extent]], key_groups: tuple[int, int]
    ) -> DatabaseRecords:
        header = understood(source.header)
        return DatabaseRecords(source.max_parallelism, self._files, files, header, key_groups, times=self._times)

    def _timer_reader(self, source: RecordSource) -> TimerReader:
        made_for = (source.max_parallelism, understood(source.header))
        if self._timers is None or self._timers[0] != made_for:
            self._timers = made_for, TimerReader(made_for[1], source.max_parallelism, times=self._times)
        return self._timers[1]

    def _heap_reader(self, source: RecordSource) -> HeapReader:
        made_for = (source.max_parallelism, understood(source.header))
        if self._heap is None or self._heap[0] != made_for:
            reader = HeapReader(made_for[1], made_for[0], times=self._times, whole_entries=self._whole_entries)
            self._heap = made_for, reader
        return self._heap[1]


def sources_of(holder: KeyedHolder, max_parallelism: int) -> Iterator[RecordSource]:
    """Yield the sources of a holder of keyed state or timers in a snapshot."""
    number_of_states = None if holder.parsed is None else len(holder.parsed.states)
    if isinstance(holder, Changelog):
        base = tuple(source for part in holder.base for source in sources_of(part, max_parallelism))
        key_groups = (holder.key_groups.first, holder.key_groups.last)
        changes = ChangelogPlace(base, holder.changes, key_groups, holder.log_size)
        yield RecordSource(changes, max_parallelism, number_of_states, holder.parsed)
        return
    if isinstance(holder, Database):
        place = DatabasePlace(holder.files, (holder.key_groups.first, holder.key_groups.last))
        yield RecordSource(place, max_parallelism, number_of_states, holder.parsed)
        return
    for run in group_runs(holder.present_groups):
        groups = tuple(run)
        yield RecordSource(_place_of(holder, groups), max_parallelism, number_of_states, holder.parsed)


def _place_of(stream: KeyedStream, groups: tuple[tuple[int, Extent], ...]) -> GroupPlace | TimerPlace | HeapPlace:
    if stream.services:
        return TimerPlace(groups)
    if stream.framing is Framing.HEAP:
        return HeapPlace(groups)
    return GroupPlace(is_compressed(stream.header), groups)

"""Sources of an operator's records, in parts that a task reads at once, whatever the kind of state.

Each kind of place (`snapshot.places`) has a class that reads its records. Only this module chooses between kinds:
callers ask a `SourceReader` for the batches of a `RecordSource`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from rescale.execution.meter import METER
from rescale.execution.sources.block_records import BlockRecords
from rescale.execution.sources.change_records import ChangeReader
from rescale.execution.sources.changelog_records import ChangelogRecords, WindowedRecords, Windows
from rescale.execution.sources.database_records import DatabaseRecords
from rescale.execution.sources.group_records import GroupRecords
from rescale.execution.sources.spans import group_runs
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks.records import RecordReader, Records, framed_size
from rescale.flink.keyed.header import MOST_UNKNOWN_STATES, KeyedHeader, require_header
from rescale.flink.keyed.heap.heap_reader import HeapReader
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.timer_reader import TimerReader
from rescale.flink.keyed.ttl.counting_age_filter import CountingAgeFilter, LeftOutCounts
from rescale.flink.keyed.ttl.last_access import Cutoffs, age_rules
from rescale.snapshot.keyed_state import Changelog, Database, KeyedStateHolder, KeyedStream
from rescale.snapshot.places import (
    ChangelogPlace,
    ChangePlace,
    DatabasePlace,
    Place,
    StreamPlace,
    changelog_place,
    database_place,
    stream_place,
)
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import SnapshotError

RecordPlace: TypeAlias = Place[KeyedHeader | None]
"""A place whose headers are parsed. A header with an unknown serializer is None."""


class RecordSource(NamedTuple):
    """Records of an operator with the given `max_parallelism`.

    A canonical stream can be read without a header. `number_of_states` is None if unknown. Rows that are older than the
    `cutoffs` are read, but left out; this needs the header.
    """

    place: RecordPlace
    max_parallelism: int
    number_of_states: int | None
    cutoffs: Cutoffs = ()

    @property
    def header(self) -> KeyedHeader | None:
        """Header that names the states of the records; None if it has an unknown serializer."""
        return self.place.header

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return self.place.size

    @property
    def key_group_count(self) -> int:
        """Number of key groups that a stream of keyed state lists; 0 for timers, databases and changelogs."""
        match self.place:
            case StreamPlace(framing=Framing.CANONICAL | Framing.HEAP) as place:
                return len(place.extents)
            case _:
                return 0

    @property
    def states(self) -> tuple[list[str], list[bool]]:
        """Names of the states by state id, and for each whether it is a map. Unknown names are "state 0", "state 1"."""
        if self.header is None:
            return [f"state {i}" for i in range(MOST_UNKNOWN_STATES)], [False] * MOST_UNKNOWN_STATES
        states = self.header.states
        return [state.name for state in states], [state.state_type == "MAP" for state in states]


class RecordBatches(Protocol):
    """Records of a source, in order; each batch is overwritten by the next one."""

    def __iter__(self) -> Iterator[Records]:
        """Yield batches; errors name the file and the offset in it."""

    def check_all_read(self, framed_bytes: int) -> None:
        """Raise `IntegrityError` unless all bytes of the source were records; call it after the last batch.

        `framed_bytes` is the size of all records, as `framed_size` computes it.
        """


class CountedBatches:
    """Batches without the rows that are older than the source's cutoffs. The meter counts all records."""

    def __init__(self, batches: RecordBatches, age_filter: CountingAgeFilter | None) -> None:
        self._batches = batches
        self._age_filter = age_filter

    def __iter__(self) -> Iterator[Records]:
        for records in self._batches:
            METER.count_records(len(records))
            kept_records = records if self._age_filter is None else self._age_filter.filter(records)
            if len(kept_records):
                yield kept_records

    @property
    def left_out(self) -> Mapping[str, LeftOutCounts]:
        """The old rows that were left out so far, by state with a cutoff."""
        return {} if self._age_filter is None else self._age_filter.left_out

    def check_all_read(self, framed_bytes: int) -> None:
        """Call `RecordBatches.check_all_read`; `framed_bytes` is the framed size of the yielded records."""
        self._batches.check_all_read(framed_bytes + (0 if self._age_filter is None else self._age_filter.saved_bytes))


class SourceReader:
    """Reads sources of the snapshot with these `files`, one after the other, with the same buffers.

    `batch_factor` multiplies the usual size of a batch. With `reads_whole_entries`, an entry of heap state is one
    record, as in the native format of the hashmap backend. Raises `UnsupportedError` if the boundaries of records are
    unknown.
    """

    def __init__(self, files: SnapshotFiles, *, batch_factor: int = 1, reads_whole_entries: bool = False) -> None:
        self._files = files
        self._batch_factor = batch_factor
        self._group_reader = lru_cache(1)(partial(RecordReader, batch_factor=batch_factor))
        self._timer_reader = lru_cache(1)(partial(TimerReader, batch_factor=batch_factor))
        self._heap_reader = lru_cache(1)(
            partial(HeapReader, batch_factor=batch_factor, reads_whole_entries=reads_whole_entries)
        )

    def batches(self, source: RecordSource) -> CountedBatches:
        """Return the batches of a source, to be read before the next source's."""
        rules = age_rules(require_header(source.header), source.cutoffs) if source.cutoffs else ()
        age_filter = CountingAgeFilter(rules, source.max_parallelism) if rules else None
        return CountedBatches(self._batches(source), age_filter)

    def _batches(self, source: RecordSource) -> RecordBatches:
        match source.place:
            case StreamPlace(framing=Framing.CANONICAL) as place:
                reader = self._group_reader(source.max_parallelism, source.number_of_states)
                return GroupRecords(reader, self._files, place.extents, is_compressed=place.compressed)
            case StreamPlace(framing=Framing.HEAP) as place:
                heap_reader = self._heap_reader(require_header(place.header), source.max_parallelism)
                return BlockRecords(heap_reader, self._files, place.extents)
            case StreamPlace() as place:
                timer_reader = self._timer_reader(require_header(place.header), source.max_parallelism)
                return BlockRecords(timer_reader, self._files, place.extents)
            case DatabasePlace() as place:
                return self._database_records(source, place)
            case ChangelogPlace() as place:
                header = require_header(place.header)
                parts = [_source(part, source.max_parallelism) for part in place.base]
                key_groups = KeyGroupRange(*place.key_groups)
                return ChangelogRecords(
                    header,
                    source.max_parallelism,
                    self._files,
                    place.changes,
                    key_groups,
                    base=lambda windows: [self._in_windows(part, header, windows) for part in parts],
                )
            case ChangePlace() as place:
                return ChangeReader(source.max_parallelism, self._files, place)

    def _in_windows(self, part: RecordSource, header: KeyedHeader, windows: Windows) -> WindowedRecords:
        """Yield the materialised records of each window, with the state ids of `header`."""
        id_by_name = {state.name: i for i, state in enumerate(header.states)}
        states = require_header(part.header).names
        if unknown_states := [state for state in states if state not in id_by_name]:
            raise SnapshotError(
                "the materialised part of a changelog has a state that the changelog's header does not have",
                state=unknown_states[0],
                expected=", ".join(id_by_name),
                found=", ".join(states),
                advice=Advice(SAME_COMMAND, ": the changelog was misread, or the source has changed"),
            )
        new_ids = np.array([id_by_name[state] for state in states], np.int64)
        if isinstance(part.place, DatabasePlace):
            batches_by_window = self._database_records(part, part.place).in_ranges(windows)
        else:
            batches_by_window = (self._in_window(part, window) for window in windows)
        for batches in batches_by_window:
            yield (replace(records, state_ids=new_ids[records.state_ids]) for records in batches)

    def _in_window(self, part: RecordSource, window: KeyGroupRange) -> Iterator[Records]:
        """Yield the records of a materialised stream that lie in the given key groups."""
        assert isinstance(part.place, StreamPlace)
        for run in _bounded_runs(part.place.part(window)):
            batches = self._batches(part._replace(place=run))
            framed_bytes = 0
            for records in batches:
                framed_bytes += framed_size(records, part.max_parallelism)
                yield records
            batches.check_all_read(framed_bytes)

    def _database_records(self, source: RecordSource, place: DatabasePlace[KeyedHeader | None]) -> DatabaseRecords:
        header = require_header(place.header)
        key_groups = KeyGroupRange(*place.key_groups)
        return DatabaseRecords(
            source.max_parallelism, self._files, place.files, header, key_groups, batch_factor=self._batch_factor
        )


def sources_of(holder: KeyedStateHolder, max_parallelism: int, cutoffs: Cutoffs = ()) -> Iterator[RecordSource]:
    """Yield the sources of keyed state or timers of a snapshot (`holder`), each as large as a task reads at once.

    Rows that are older than the `cutoffs` are left out.
    """
    for source in _sources_of(holder, max_parallelism):
        yield source._replace(cutoffs=cutoffs)


def _sources_of(holder: KeyedStateHolder, max_parallelism: int) -> Iterator[RecordSource]:
    match holder:
        case KeyedStream():
            for run in _bounded_runs(stream_place(holder, holder.parsed)):
                yield _source(run, max_parallelism)
        case Database():
            yield _source(database_place(holder, holder.parsed), max_parallelism)
        case Changelog():
            yield _source(changelog_place(holder, lambda part: part.parsed), max_parallelism)


def _source(place: RecordPlace, max_parallelism: int) -> RecordSource:
    return RecordSource(place, max_parallelism, None if place.header is None else len(place.header.states))


def _bounded_runs(place: StreamPlace[KeyedHeader | None]) -> Iterator[StreamPlace[KeyedHeader | None]]:
    """Split a stream into bounded runs of key groups that lie end to end."""
    for run in group_runs(place.extents):
        yield place.part(KeyGroupRange(run[0][0], run[-1][0]))

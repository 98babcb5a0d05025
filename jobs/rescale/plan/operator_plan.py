"""Plan of an operator: its new shape and its new streams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rescale.flink.key_groups import subtask_of_key_group
from rescale.flink.keyed.header import NO_NEW_ID
from rescale.flink.keyed.ttl.last_access import Cutoffs
from rescale.flink.slot import Slot
from rescale.plan.new_streams import (
    CompactedDirectory,
    NewDatabase,
    NewStream,
    PlannedStream,
    RekeyedDirectory,
    RekeyedStream,
)
from rescale.plan.rekeying import Rekeying
from rescale.plan.work_class import WorkClass


@dataclass(frozen=True)
class OperatorPlan:
    """Plan of an operator: its old and new shape, and its new streams.

    `id_tables` translate state ids of the source: `table[old id]` is the new id, or `NO_NEW_ID` if the state is left
    out. `rekeying` is set if records are read one by one (`Rekeying`). `heap_timers` is set if timers on the heap
    beside RocksDB get new key groups; they remain on the heap. `cutoffs` say which old rows of rekeyed state are left
    out.
    """

    operator_id: str
    label: str
    parallelism: int
    new_parallelism: int
    max_parallelism: int
    new_max_parallelism: int
    work: WorkClass
    states: tuple[str, ...]
    id_tables: tuple[tuple[int, ...], ...]
    streams: tuple[PlannedStream, ...]
    rekeying: Rekeying | None = None
    heap_timers: Rekeying | None = None
    databases: tuple[NewDatabase, ...] = ()
    compacted: tuple[CompactedDirectory, ...] = ()
    cutoffs: Cutoffs = ()

    @property
    def is_changed(self) -> bool:
        """Whether the operator gets a new shape."""
        return (self.parallelism, self.max_parallelism) != (self.new_parallelism, self.new_max_parallelism)

    @property
    def rekeyings(self) -> tuple[Rekeying, ...]:
        """The rekeyings of records and of timers on the heap, if there are any."""
        return tuple(rekeying for rekeying in (self.rekeying, self.heap_timers) if rekeying is not None)

    @property
    def writes_rows(self) -> bool:
        """Whether the new keyed state is RocksDB directories that are written row by row."""
        return self.rekeying is not None and self.rekeying.stream_type is RekeyedDirectory

    @property
    def is_continued(self) -> bool:
        """Whether the new keyed state continues that of an earlier result."""
        return self.rekeying is not None and bool(self.rekeying.bases)

    @cached_property
    def rekeyed_streams(self) -> tuple[RekeyedStream, ...]:
        """New streams of rekeyed records; those of `rekeying` come before those of `heap_timers`."""
        return tuple(stream for rekeying in self.rekeyings for stream in rekeying.streams)

    @property
    def rekeyed_bytes(self) -> int:
        """Bytes of the rekeyed records in the source, estimated for databases and changelogs."""
        return sum(rekeying.bytes for rekeying in self.rekeyings)

    @property
    def new_streams(self) -> tuple[NewStream, ...]:
        return (*self.rekeyed_streams, *self.compacted, *self.streams)

    @property
    def new_keyed_bytes(self) -> tuple[int, ...]:
        """Bytes of keyed state of each new subtask, headers included; estimated for rekeyed state."""
        bytes_by_subtask = [0] * self.new_parallelism
        for stream in self.new_streams:
            if stream.slot.is_keyed:
                bytes_by_subtask[stream.subtask] += stream.size
        for database in self.databases:
            bytes_by_subtask[database.subtask] += sum(piece.length for _, piece in database.referred)
        for key_group, size in enumerate(self.new_key_group_bytes):
            bytes_by_subtask[subtask_of_key_group(self.new_max_parallelism, self.new_parallelism, key_group)] += size
        return tuple(bytes_by_subtask)

    @property
    def is_in_rocksdb(self) -> bool:
        """Whether the new keyed state consists of RocksDB directories."""
        has_new_directories = any(isinstance(stream, RekeyedDirectory) for stream in self.rekeyed_streams)
        return has_new_directories or bool(self.databases or self.compacted)

    @property
    def is_compressed(self) -> bool:
        """Whether the key groups of rekeyed records are compressed."""
        return self.rekeying is not None and self.rekeying.compressed

    @property
    def rows_are_in_order(self) -> bool:
        """Whether canonical streams need no sorting, because all sources are databases, which return rows in order."""
        if self.rekeying is None or self.cutoffs or self.is_in_rocksdb or self.work is not WorkClass.RELOCATE:
            return False
        drops_states = any(NO_NEW_ID in id_table for id_table in self.id_tables)
        return len(self.rekeying.databases) == len(self.rekeying.sources) and not drops_states

    @cached_property
    def expected_key_group_bytes(self) -> tuple[int, ...]:
        """Estimated bytes of rekeyed state by new key group; empty without rekeyed state."""
        bytes_per_rekeying = [
            rekeying.expected_key_group_bytes(self.max_parallelism, self.new_max_parallelism)
            for rekeying in self.rekeyings
        ]
        return tuple(map(sum, zip(*bytes_per_rekeying, strict=True)))

    @cached_property
    def new_key_group_bytes(self) -> tuple[int, ...]:
        """Estimated bytes of the result's rekeyed state in each new key group, including files of the continued base.

        All key groups of a directory of the base are taken to be equally large.
        """
        key_group_bytes = list(self.expected_key_group_bytes)
        for rekeying in self.rekeyings:
            for stream, base in zip(rekeying.streams, rekeying.bases, strict=bool(rekeying.bases)):
                for key_group in range(stream.first_key_group, stream.first_key_group + stream.key_groups):
                    key_group_bytes[key_group] += base.database.size // stream.key_groups
        return tuple(key_group_bytes)

    def bytes_of(self, *slots: Slot) -> int:
        """Return the bytes of new streams in `slots`; files of the source to which the result refers do not count."""
        rekeyed_bytes_of_slots = sum(rekeying.bytes for rekeying in self.rekeyings if rekeying.slot in slots)
        return rekeyed_bytes_of_slots + sum(stream.size for stream in self.new_streams if stream.slot in slots)

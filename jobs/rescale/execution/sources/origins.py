"""Where the records of an operator lie, in parts that a task reads at once: key groups of streams, or a database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.errors import UnsupportedError
from rescale.execution.sources.database_records import DatabaseRecords
from rescale.execution.sources.group_records import GroupRecords, check_accounted
from rescale.execution.sources.spans import group_runs
from rescale.execution.sources.timer_records import TimerRecords
from rescale.execution.validation.coverage import groups_of
from rescale.flink.advice import CANONICAL
from rescale.flink.keyed.header import KeyedHeader, is_compressed
from rescale.flink.keyed.record_marks import ID_SIZE
from rescale.flink.keyed.records import RecordReader
from rescale.flink.keyed.timer_reader import TimerReader
from rescale.rocksdb.scan import RowReader
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Database, KeyedStream
from rescale.snapshot.snapshot_files import SnapshotFiles


class GroupRun(NamedTuple):
    """Key groups of one stream in canonical framing, end to end."""

    compressed: bool
    groups: tuple[tuple[int, Extent], ...]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.groups)


class Directory(NamedTuple):
    """A RocksDB directory by its files, which speaks for the key groups from first to last."""

    files: tuple[tuple[str, Extent], ...]
    key_groups: tuple[int, int]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.files)


class TimerRun(NamedTuple):
    """Key groups of one stream of raw keyed timers, end to end."""

    groups: tuple[tuple[int, Extent], ...]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.groups)


class Origin(NamedTuple):
    """Records of an operator with that `max_parallelism`; `header` names their states."""

    header: KeyedHeader | None
    max_parallelism: int
    place: GroupRun | Directory | TimerRun

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return self.place.size

    def records(self, files: SnapshotFiles) -> GroupRecords | DatabaseRecords | TimerRecords:
        """From `files`, those of the snapshot; `UnsupportedError` where they cannot be told apart."""
        if isinstance(self.place, GroupRun):
            reader = RecordReader(self.max_parallelism, None if self.header is None else len(self.header.states))
            return GroupRecords(reader, files, self.place.groups, compressed=self.place.compressed)
        if self.header is None:
            raise UnsupportedError("a serializer is not known that hides the names of the states", advice=CANONICAL)
        if isinstance(self.place, TimerRun):
            return TimerRecords(TimerReader(self.header, self.max_parallelism), files, self.place.groups)
        return DatabaseRecords(
            RowReader(self.max_parallelism), files, self.place.files, self.header, self.place.key_groups
        )


def origins_of(holder: KeyedStream | Database, max_parallelism: int) -> Iterator[Origin]:
    if isinstance(holder, Database):
        key_groups = (holder.key_groups.first, holder.key_groups.last)
        yield Origin(holder.parsed, max_parallelism, Directory(holder.files, key_groups))
        return
    for run in group_runs(groups_of(holder)):
        place = TimerRun(tuple(run)) if holder.services else GroupRun(is_compressed(holder.header), tuple(run))
        yield Origin(holder.parsed, max_parallelism, place)


def check_all_read(read: GroupRecords | DatabaseRecords | TimerRecords, accounted: int) -> None:
    """`IntegrityError` if the records are not all that was read of key groups: `accounted` bytes with their framing."""
    if isinstance(read, GroupRecords):
        check_accounted(read.size, accounted + ID_SIZE * len(read.groups))

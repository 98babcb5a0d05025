"""What happens to one operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rescale.flink.key_groups import subtask_of_key_group
from rescale.flink.keyed.header import LEFT_OUT
from rescale.flink.slot import Slot
from rescale.planning.values.new_streams import (
    CompactedRows,
    NewDatabase,
    NewStream,
    PlannedStream,
    RekeyedRows,
    RekeyedStream,
)
from rescale.planning.values.rekeying import Rekeying
from rescale.planning.values.work_class import WorkClass


@dataclass(frozen=True)
class OperatorPlan:
    """What happens to one operator. `old_keyed_bytes` are the keyed bytes per old subtask, to compare evenness.

    Where records get new key groups, `rekeying` says which are read, and what they come to. Timers that are kept on the
    heap beside RocksDB, and stay there, have one of their own: `heap_timers`.
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
    old_keyed_bytes: tuple[int, ...]
    rekeying: Rekeying | None = None
    heap_timers: Rekeying | None = None
    databases: tuple[NewDatabase, ...] = ()
    compacted: tuple[CompactedRows, ...] = ()

    @property
    def rekeyings(self) -> tuple[Rekeying, ...]:
        return tuple(one for one in (self.rekeying, self.heap_timers) if one is not None)

    @cached_property
    def rekeyed(self) -> tuple[RekeyedStream, ...]:
        """The streams that records come to which get new key groups: first those of `rekeying`."""
        return tuple(stream for one in self.rekeyings for stream in one.streams)

    @property
    def rekeyed_bytes(self) -> int:
        """Bytes of the source whose records get new key groups."""
        return sum(one.bytes for one in self.rekeyings)

    @property
    def new_streams(self) -> tuple[NewStream, ...]:
        """All of them."""
        return (*self.rekeyed, *self.compacted, *self.streams)

    @property
    def new_keyed_bytes(self) -> tuple[int, ...]:
        """Keyed bytes (headers included) that each new subtask gets; of rekeyed state, what is to be expected."""
        per_subtask = [0] * self.new_parallelism
        for stream in self.new_streams:
            if stream.slot.is_keyed:
                per_subtask[stream.subtask] += stream.size
        for database in self.databases:
            per_subtask[database.subtask] += sum(piece.length for _, piece in database.referred)
        for key_group, size in enumerate(self.expected_key_groups):
            per_subtask[subtask_of_key_group(self.new_max_parallelism, self.new_parallelism, key_group)] += size
        return tuple(per_subtask)

    @property
    def in_rocksdb(self) -> bool:
        """Whether its keyed state will be RocksDB directories."""
        made = any(isinstance(stream, RekeyedRows) for stream in self.rekeyed)
        return made or bool(self.databases or self.compacted)

    @property
    def is_compressed(self) -> bool:
        """Whether the key groups are compressed whose records are read."""
        return self.rekeying is not None and self.rekeying.compressed

    @property
    def is_in_order(self) -> bool:
        """Whether canonical streams can be read off databases: there all records lie in order, and so they stay."""
        if self.rekeying is None or self.in_rocksdb or self.work is not WorkClass.RELOCATE:
            return False
        some_are_left_out = any(LEFT_OUT in table for table in self.id_tables)
        return not (self.rekeying.sources or self.rekeying.changelogs or some_are_left_out)

    @cached_property
    def expected_key_groups(self) -> tuple[int, ...]:
        """Bytes to expect in each new key group of rekeyed state; nothing if there is none."""
        of_each = [one.expected_key_groups(self.max_parallelism, self.new_max_parallelism) for one in self.rekeyings]
        return tuple(map(sum, zip(*of_each, strict=True)))

    def bytes_of(self, *slots: Slot) -> int:
        """Bytes of new streams in `slots`; what is referred to is not among them."""
        rekeyed = sum(one.bytes for one in self.rekeyings if one.slot in slots)
        return rekeyed + sum(stream.size for stream in self.new_streams if stream.slot in slots)

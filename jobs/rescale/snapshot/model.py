"""A snapshot as planning and validation see it: `_metadata`, the extents of all streams, and the streams' headers.

Only `_metadata` and headers are read. The files are *pinned* in the versions that were seen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.ttl.last_access import Cutoffs
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink.operator_state import OperatorStateHeader
from rescale.flink.slot import Slot
from rescale.snapshot.keyed_state import Changelog, Database, KeyedStateHolder, KeyedStream, OtherKeyed
from rescale.snapshot.locate import Extent
from rescale.snapshot.moves import Move, moved_place
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.store import Pin
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import RescaleError, SnapshotError


@dataclass(frozen=True)
class ElementState:
    """State in an operator-state stream, with an extent for each element (a broadcast state is one element)."""

    name: str
    mode: DistributionMode
    elements: tuple[Extent, ...]


@dataclass(frozen=True)
class ElementStream:
    """The managed or raw operator state of one subtask; raw state has no header.

    `has_own_header` is False if states are left out, because the header is then not the file's.
    """

    subtask: int
    extent: Extent
    states: tuple[ElementState, ...]
    header: bytes
    parsed: OperatorStateHeader | None
    has_own_header: bool = True


@dataclass(frozen=True)
class Operator:
    """Operator of a snapshot: its entry in `_metadata`, and its streams by slot, each in subtask order.

    An operator that is not `is_whole` was given up: files of it are missing, or its streams could not be read, as
    `unread` says. `dropped_states` are names of managed keyed states, which are among the records, but not in the
    result. Rows of other managed keyed states that are as old as their `cutoffs` say are not in it, either.
    """

    entry: OperatorState
    label: str
    keyed: tuple[KeyedStream, ...]
    raw_keyed: tuple[KeyedStream, ...]
    operator: tuple[ElementStream, ...]
    raw_operator: tuple[ElementStream, ...]
    other_keyed: tuple[OtherKeyed, ...]
    channel_bytes: int
    databases: tuple[Database, ...] = ()
    changelogs: tuple[Changelog, ...] = ()
    is_whole: bool = True
    unread: RescaleError | None = None
    dropped_states: frozenset[str] = frozenset()
    cutoffs: Cutoffs = ()

    @property
    def operator_id(self) -> str:
        return self.entry.operator_id

    @property
    def parallelism(self) -> int:
        return self.entry.parallelism

    @property
    def max_parallelism(self) -> int:
        return self.entry.max_parallelism

    def key_groups_of(self, subtask: int) -> KeyGroupRange:
        """Return the key groups that Flink assigns to a subtask in this shape."""
        return key_group_range(self.max_parallelism, self.parallelism, subtask)

    def elements_in(self, slot: Slot) -> tuple[ElementStream, ...]:
        """Return the managed or the raw operator state; `slot` is one of the `OPERATOR_SLOTS`."""
        return self.operator if slot is Slot.OPERATOR else self.raw_operator

    @property
    def managed_keyed(self) -> tuple[KeyedStateHolder, ...]:
        """Holders of its managed keyed state."""
        return (*self.keyed, *self.databases, *self.changelogs)

    @property
    def keyed_headers(self) -> list[KeyedHeader | None]:
        """Headers of all keyed streams, databases, changelogs and timers; None for one with an unknown serializer."""
        return [holder.parsed for holder in self.record_holders]

    @property
    def record_holders(self) -> tuple[KeyedStateHolder, ...]:
        """Holders of its keyed state and of its timers."""
        return (*self.managed_keyed, *self.heap_timers)

    @property
    def raw_timers(self) -> tuple[KeyedStream, ...]:
        """The raw keyed streams with timers of any service (`InternalTimeServiceManager`)."""
        return tuple(stream for stream in self.raw_keyed if stream.services)

    @property
    def heap_timers(self) -> tuple[KeyedStream, ...]:
        """Raw timers that are stored nowhere else."""
        return () if self.doubled_timers else self.raw_timers

    @cached_property
    def doubled_timers(self) -> tuple[KeyedStream, ...]:
        """Raw timers that the keyed streams of their subtasks contain, too: all, or none.

        Full checkpoints of RocksDB before Flink 1.16 store timers twice (`RocksDBFullSnapshotResources`). A restore
        merges them (`HeapPriorityQueueSet`).
        """
        listed = {
            stream.subtask: {state.name for state in stream.parsed.states}
            for stream in self.keyed
            if stream.parsed is not None
        }
        states = [
            (stream.subtask, state.name)
            for stream in self.raw_timers
            if stream.parsed is not None
            for state in stream.parsed.states
        ]
        return self.raw_timers if all(name in listed.get(subtask, ()) for subtask, name in states) else ()

    @property
    def own_raw_keyed(self) -> tuple[KeyedStream, ...]:
        """The raw keyed streams in a format of the operator's own, which are not timers."""
        return tuple(stream for stream in self.raw_keyed if stream.services is None)

    @property
    def becomes_canonical(self) -> bool:
        """Whether there is keyed state that can become canonical and is not."""
        return bool(self.databases or self.changelogs or self.raw_timers or self.heap_streams)

    @property
    def heap_streams(self) -> tuple[KeyedStream, ...]:
        """The keyed streams in the heap's own framing."""
        return tuple(stream for stream in self.keyed if stream.framing is Framing.HEAP)

    @property
    def kinds(self) -> list[str]:
        """Kinds of holders of its managed keyed state; Flink restores only one kind."""
        framings = {f"{stream.framing.value} streams" for stream in self.keyed}
        databases = {"RocksDB directories" for _ in self.databases}
        changelogs = {"changelogs" for _ in self.changelogs}
        return sorted(framings | databases | changelogs | {type(other.handle).__name__ for other in self.other_keyed})

    @property
    def has_channel_state(self) -> bool:
        """Whether there is channel state, even if its handles count no bytes."""
        states = [subtask.state for subtask in self.entry.subtasks if subtask.state is not None]
        return self.channel_bytes != 0 or any(state.input_channels or state.output_channels for state in states)

    @property
    def partially_finished(self) -> bool:
        return any(subtask.finished for subtask in self.entry.subtasks)

    @property
    def bytes(self) -> int:
        keyed = sum(holder.size for holder in (*self.managed_keyed, *self.raw_keyed))
        elements = sum(stream.extent.length for stream in (*self.operator, *self.raw_operator))
        return keyed + elements + sum(other.size for other in self.other_keyed) + self.channel_bytes


@dataclass(frozen=True)
class Snapshot:
    """A parsed snapshot.

    * `files`: URIs and versions of all files; `files[0]` is `_metadata`. `missing`: files that handles name and that
      are gone.
    * `taken`: the time when `_metadata` was written, if the store knows it.
    * `written`: bytes of elements that a surgery changed.
    * `unused_names`: names that the user gave for operators that the snapshot does not have.
    * `moves`: old and new places of moved files. `moved_files`: the places of these files in the handles.
    """

    directory: str
    metadata: Metadata
    data: bytes
    type: SnapshotType
    files: tuple[tuple[str, Pin], ...]
    missing: tuple[str, ...]
    taken: datetime | None
    operators: tuple[Operator, ...]
    written: bytes = b""
    unused_names: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    moved_files: tuple[str, ...] = ()

    @property
    def metadata_uri(self) -> str:
        return self.files[0][0]

    @cached_property
    def contents(self) -> SnapshotFiles:
        """Reader of its files."""
        return SnapshotFiles(self.files, self.data, self.written)

    @cached_property
    def origins(self) -> tuple[str, ...]:
        """URI of each file by its number, as handles name it; a moved file is read elsewhere."""
        handles = {moved_place(path, self.moves): path for path in self.moved_files}
        return tuple(handles.get(uri, uri) for uri, _ in self.files)

    @property
    def metadata_sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def bytes(self) -> int:
        return sum(operator.bytes for operator in self.operators)

    def check_complete(self) -> None:
        """Raise `SnapshotError` if files of state are gone."""
        if self.missing:
            raise SnapshotError(
                "files that the snapshot refers to are gone",
                path=self.metadata_uri,
                expected=f"{len(self.files) - 1} files of state",
                found=f"{len(self.missing)} missing, such as {self.missing[0]}",
                advice=Advice(
                    "if they are in another place now, give it: ",
                    mention("moved", "OLD=NEW"),
                    "; otherwise take another snapshot, or drop the operators that had them (",
                    mention("drop", "UID"),
                    ") and save the state of the others. ",
                    command("inspect"),
                    " lists the files and the reason, if it is known",
                ),
            )

"""A snapshot as planning and validation see it: `_metadata`, the extents of all streams, and the streams' headers.

Opening a snapshot reads only `_metadata` and headers. It *pins* the versions of all files.
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
from rescale.flink.metadata.handles import ChangelogHandle, DistributionMode
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink.operator_state import OperatorStateHeader, has_compressed_elements
from rescale.flink.slot import Slot
from rescale.flink.state_meta_info import StateMetaInfo
from rescale.snapshot.keyed_state import Changelog, Database, KeyedStateHolder, KeyedStream, OtherKeyed
from rescale.snapshot.locate import Extent
from rescale.snapshot.moves import Move, moved_place
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.store import Pin
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import RescaleError, SnapshotError


@dataclass(frozen=True)
class ElementState:
    """A state in an operator state stream, with the extent of each element; a broadcast state is one element."""

    name: str
    mode: DistributionMode
    elements: tuple[Extent, ...]


@dataclass(frozen=True)
class ElementStream:
    """The managed or raw operator state of one subtask; raw operator state has no header.

    `has_stored_header` is False if states are left out, because `header` then differs from the header in the file.
    """

    subtask: int
    extent: Extent
    states: tuple[ElementState, ...]
    header: bytes
    parsed: OperatorStateHeader | None
    has_stored_header: bool = True

    @property
    def compressed(self) -> bool:
        """Whether each element is compressed; raw operator state never is."""
        return bool(self.header) and has_compressed_elements(self.header)

    @property
    def shares_offsets(self) -> bool:
        """Whether compressed elements share an offset, so that nothing tells where each of them begins (FLINK-34063).

        Flink 1.18.0 and 1.18.1 did not flush the snappy stream before they took an offset
        (`CompressibleFSDataOutputStream`). So all elements in a chunk of 64 KiB have the offset of the chunk.
        """
        if not self.compressed:
            return False
        extents = [extent for state in self.states for extent in state.elements if extent.length]
        return len(set(extents)) < len(extents)


@dataclass(frozen=True)
class Operator:
    """Operator of a snapshot: its entry in `_metadata`, and its streams by slot, in the order of the subtasks.

    If `is_whole` is False, the operator was given up (see `open_candidate`): some of its files are missing, or its
    streams could not be read because of `read_error`. `dropped_states` are the names of managed keyed states that are
    among the records, but not in the result. The result also lacks rows that were last accessed at or before the
    `cutoffs` of their state.
    """

    entry: OperatorState
    label: str
    keyed: tuple[KeyedStream, ...]
    raw_keyed: tuple[KeyedStream, ...]
    element_streams: tuple[ElementStream, ...]
    raw_element_streams: tuple[ElementStream, ...]
    other_keyed: tuple[OtherKeyed, ...]
    channel_bytes: int
    databases: tuple[Database, ...] = ()
    changelogs: tuple[Changelog, ...] = ()
    is_whole: bool = True
    read_error: RescaleError | None = None
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
        """Return the key groups that Flink assigns to a subtask at the stored parallelism."""
        return key_group_range(self.max_parallelism, self.parallelism, subtask)

    def element_streams_in(self, slot: Slot) -> tuple[ElementStream, ...]:
        """Return the managed or the raw operator state; `slot` is one of the `OPERATOR_SLOTS`."""
        return self.element_streams if slot is Slot.OPERATOR else self.raw_element_streams

    @property
    def has_changelog(self) -> bool:
        """Whether the keyed state is in a changelog, with or without changes."""
        states = [subtask.state for subtask in self.entry.subtasks if subtask.state is not None]
        return any(isinstance(state.managed_keyed, ChangelogHandle) for state in states)

    @property
    def managed_keyed(self) -> tuple[KeyedStateHolder, ...]:
        return (*self.keyed, *self.databases, *self.changelogs)

    @property
    def keyed_headers(self) -> list[KeyedHeader | None]:
        """Headers of all keyed streams, databases, changelogs and timers; None for one with an unknown serializer."""
        return [holder.parsed for holder in self.record_holders]

    @property
    def parsed_headers(self) -> list[KeyedHeader]:
        """The keyed headers without unknown serializers."""
        return [header for header in self.keyed_headers if header is not None]

    @property
    def keyed_states(self) -> list[StateMetaInfo]:
        """The states of all parsed headers; a state is repeated for each header."""
        return [state for header in self.parsed_headers for state in header.states]

    @property
    def record_holders(self) -> tuple[KeyedStateHolder, ...]:
        """The managed keyed state, and the raw keyed streams with timers that are stored nowhere else."""
        return (*self.managed_keyed, *self.heap_timers)

    @property
    def raw_timers(self) -> tuple[KeyedStream, ...]:
        """The raw keyed streams that hold timers (`InternalTimeServiceManager`)."""
        return tuple(stream for stream in self.raw_keyed if stream.timer_services)

    @property
    def heap_timers(self) -> tuple[KeyedStream, ...]:
        """Raw timers that are stored nowhere else."""
        return () if self.duplicate_timers else self.raw_timers

    @cached_property
    def duplicate_timers(self) -> tuple[KeyedStream, ...]:
        """The raw timers, if the keyed streams of their subtasks contain all of them, too; else none.

        Full checkpoints of RocksDB before Flink 1.16 store timers twice (`RocksDBFullSnapshotResources`). A restore
        merges both copies (`HeapPriorityQueueSet`).
        """
        state_names = {stream.subtask: set(stream.parsed.names) for stream in self.keyed if stream.parsed is not None}
        states = [
            (stream.subtask, state.name)
            for stream in self.raw_timers
            if stream.parsed is not None
            for state in stream.parsed.states
        ]
        return self.raw_timers if all(name in state_names.get(subtask, ()) for subtask, name in states) else ()

    @property
    def duplicate_states(self) -> frozenset[str]:
        """Names of the states of the duplicate timers."""
        headers = [stream.parsed for stream in self.duplicate_timers if stream.parsed is not None]
        return frozenset(name for header in headers for name in header.names)

    @property
    def raw_keyed_without_timers(self) -> tuple[KeyedStream, ...]:
        """The raw keyed streams without timers, whose format only the operator knows."""
        return tuple(stream for stream in self.raw_keyed if stream.timer_services is None)

    @property
    def hidden_timers(self) -> tuple[KeyedStream, ...]:
        """The raw keyed streams that hold timers whose services are unknown."""
        return tuple(stream for stream in self.raw_keyed if stream.has_hidden_timers)

    @property
    def can_become_canonical(self) -> bool:
        """Whether the operator has keyed state in another format that Rescale can make canonical."""
        return bool(self.databases or self.changelogs or self.raw_timers or self.heap_streams)

    @property
    def heap_streams(self) -> tuple[KeyedStream, ...]:
        """The keyed streams in the framing of the heap backend."""
        return tuple(stream for stream in self.keyed if stream.framing is Framing.HEAP)

    @property
    def holder_kinds(self) -> list[str]:
        """Kinds of the holders of the managed keyed state; Flink restores an operator only if there is one kind."""
        stream_kinds = {f"{stream.framing.value} streams" for stream in self.keyed}
        directory_kinds = {"RocksDB directories" for _ in self.databases}
        changelog_kinds = {"changelogs" for _ in self.changelogs}
        other_kinds = {type(other.handle).__name__ for other in self.other_keyed}
        return sorted(stream_kinds | directory_kinds | changelog_kinds | other_kinds)

    @property
    def has_channel_state(self) -> bool:
        """Whether the operator has channel state, even if its handles count no bytes."""
        states = [subtask.state for subtask in self.entry.subtasks if subtask.state is not None]
        return self.channel_bytes != 0 or any(state.input_channels or state.output_channels for state in states)

    @property
    def is_partially_finished(self) -> bool:
        """Whether at least one subtask has finished, although the operator as a whole has not."""
        return any(subtask.finished for subtask in self.entry.subtasks)

    @property
    def bytes(self) -> int:
        """Size of all state of the operator in bytes, without its coordinator."""
        keyed_bytes = sum(holder.size for holder in (*self.managed_keyed, *self.raw_keyed))
        element_bytes = sum(stream.extent.length for stream in (*self.element_streams, *self.raw_element_streams))
        return keyed_bytes + element_bytes + sum(other.size for other in self.other_keyed) + self.channel_bytes


@dataclass(frozen=True)
class Snapshot:
    """A parsed snapshot.

    * `files`: URIs and versions of all files; `files[0]` is `_metadata`. `missing_files`: URIs of those that are gone.
    * `metadata_time`: the time when `_metadata` was written, if the store knows it.
    * `written_bytes`: bytes of operator state that a surgery changed.
    * `unused_names`: names that the user gave for operators that the snapshot does not have.
    * `moves`: old and new directories of moved files. `moved_paths`: the paths of these files in the handles.
    """

    directory: str
    metadata: Metadata
    metadata_bytes: bytes
    type: SnapshotType
    files: tuple[tuple[str, Pin], ...]
    missing_files: tuple[str, ...]
    metadata_time: datetime | None
    operators: tuple[Operator, ...]
    written_bytes: bytes = b""
    unused_names: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    moved_paths: tuple[str, ...] = ()

    @property
    def metadata_uri(self) -> str:
        return self.files[0][0]

    @cached_property
    def contents(self) -> SnapshotFiles:
        """Reader of the files of the snapshot."""
        return SnapshotFiles(self.files, self.metadata_bytes, self.written_bytes)

    @cached_property
    def recorded_uris(self) -> tuple[str, ...]:
        """URI of each file, by file number, as handles name it; a moved file is read from another place."""
        uri_by_moved_place = {moved_place(path, self.moves): path for path in self.moved_paths}
        return tuple(uri_by_moved_place.get(uri, uri) for uri, _ in self.files)

    @cached_property
    def missing_uris(self) -> frozenset[str]:
        """The `missing_files`, as a set in which many files can be looked up."""
        return frozenset(self.missing_files)

    @property
    def metadata_sha256(self) -> str:
        return hashlib.sha256(self.metadata_bytes).hexdigest()

    @property
    def bytes(self) -> int:
        return sum(operator.bytes for operator in self.operators)

    def operator(self, operator_id: str) -> Operator:
        """Return the operator with this id, which must exist."""
        return next(operator for operator in self.operators if operator.operator_id == operator_id)

    def check_complete(self) -> None:
        """Raise `SnapshotError` if files of state are missing."""
        if self.missing_files:
            raise SnapshotError(
                "files that the snapshot refers to are gone",
                path=self.metadata_uri,
                expected=f"{len(self.files) - 1} files of state",
                found=f"{len(self.missing_files)} missing, such as {self.missing_files[0]}",
                advice=Advice(
                    "if they are in another place now, give that place: ",
                    mention("moved", "OLD=NEW"),
                    "; otherwise take another snapshot, or drop the operators that had them (",
                    mention("drop", "UID"),
                    ") and keep the state of the other operators. ",
                    command("inspect"),
                    " lists the files and the reason, if it is known",
                ),
            )

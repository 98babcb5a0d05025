"""Contents of a snapshot, cut out by the handles in `_metadata`, without the code of `rescale` that moves state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import mmh3

from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    DistributionMode,
    FileStream,
    HandleTag,
    IncrementalHandle,
    InlineStream,
    KeyGroupsHandle,
    OperatorHandle,
    RelativeFileStream,
    Stream,
)
from rescale.flink.metadata.reader import read_metadata
from simulation.changelogs import changes_of, with_logged_states
from simulation.headers import keyed_header_without, operator_header_without
from simulation.native_databases import UnreadableError
from simulation.rows import KeyedRows, Kind, assert_same, keyed_rows, kind_of, own_rows, states_in


class KeyedGroups(NamedTuple):
    """Keyed stream of a subtask: its header, and its key groups by number."""

    subtask: int
    key_groups: list[int]
    header: bytes
    groups: dict[int, bytes]


class Elements(NamedTuple):
    """Operator state of a subtask: its header, and its elements by state."""

    subtask: int
    header: bytes
    states: dict[tuple[str, DistributionMode], list[bytes]]


class Contents:
    """Contents of a snapshot: its objects by name, and the files `elsewhere`, by URI, to which it may refer."""

    def __init__(self, objects: Mapping[str, bytes], elsewhere: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._objects = objects
        self._elsewhere = elsewhere
        self.metadata: Metadata = read_metadata(objects["_metadata"], "_metadata")
        self._dropped_states: dict[str, set[str]] = defaultdict(set)

    def apply_surgery(self, renames: Sequence[str], drops: Sequence[str], state_drops: Sequence[str] = ()) -> None:
        """Rename and drop operators, and drop some states (`UID:NAME`); uids are those before the renaming."""
        new_id_by_old_id = {
            id_of_uid(uid): id_of_uid(other) for uid, other in (rename.split("=") for rename in renames)
        }
        dropped_ids = {id_of_uid(uid) for uid in drops}
        kept_operators = (operator for operator in self.metadata.operators if operator.operator_id not in dropped_ids)
        operators = tuple(
            replace(operator, operator_id=new_id_by_old_id.get(operator.operator_id, operator.operator_id))
            for operator in kept_operators
        )
        self.metadata = replace(self.metadata, operators=operators)
        for uid, _, name in (drop.partition(":") for drop in state_drops):
            operator_id = id_of_uid(uid)
            self._dropped_states[new_id_by_old_id.get(operator_id, operator_id)].add(name)

    def keyed(self, operator: OperatorState, field: str) -> list[KeyedGroups]:
        return [self._keyed(i, handle) for i, handle in self.handles(operator, field)]

    def elements(self, operator: OperatorState, field: str) -> list[Elements]:
        dropped_names = self._dropped_states[operator.operator_id]
        streams = [self._elements(i, handle) for i, handle in self.handles(operator, field)]
        return [
            _without_states(stream, dropped_names)
            for stream in streams
            if not dropped_names or state_names(stream) - dropped_names
        ]

    def file_names(self) -> set[str]:
        """Return the names of all files in the snapshot's directory that handles point to."""
        return {stream.path for stream in self._all_streams() if isinstance(stream, RelativeFileStream)}

    def uris_elsewhere(self) -> set[str]:
        """Return the URIs of all files outside of the snapshot's directory that handles point to."""
        return {stream.path for stream in self._all_streams() if isinstance(stream, FileStream)}

    def _all_streams(self) -> list[Stream]:
        fields = ("managed_keyed", "raw_keyed", "managed_operator", "raw_operator")
        handles = [h for o in self.metadata.operators for field in fields for _, h in self.handles(o, field)]
        return [stream for handle in handles for stream in _streams(handle)]

    def kinds(self) -> set[Kind]:
        """Return the kinds of managed keyed state in the snapshot."""
        return {kind for operator in self.metadata.operators for kind in self.kinds_of(operator)}

    def rows(self, operator: OperatorState) -> list[KeyedRows]:
        """Return the rows of managed keyed state by subtask."""
        streams, dropped_names = self._all_rows(operator), self.dropped_keyed_states(operator)
        if not dropped_names:
            return streams
        if not {state for stream in streams for state in states_in(stream.header)} - dropped_names:
            return []
        return [
            stream._replace(
                header=keyed_header_without(stream.header, dropped_names),
                rows=[(row, value) for row, value in stream.rows if row[0] not in dropped_names],
            )
            for stream in streams
        ]

    def readable_rows(self, operator: OperatorState) -> list[KeyedRows]:
        """Return all rows, also those of dropped states, of the subtasks whose directories RocksDB opens."""
        readable = []
        for i, handle in self.handles(operator, "managed_keyed"):
            with suppress(UnreadableError):
                readable.append(keyed_rows(i, handle, operator, self._bytes))
        return readable

    def dropped_row_counts(self, operator: OperatorState) -> dict[str, int]:
        """Return the number of rows of each dropped keyed state; empty if none or all keyed states are dropped."""
        dropped_names = self.dropped_keyed_states(operator)
        if dropped_names in (set(), self.keyed_states(operator)):
            return {}
        streams = self._all_rows(operator)
        return dict(Counter(row[0] for stream in streams for row, _ in own_rows(stream) if row[0] in dropped_names))

    def _all_rows(self, operator: OperatorState) -> list[KeyedRows]:
        handles = self.handles(operator, "managed_keyed")
        return [keyed_rows(i, handle, operator, self._bytes) for i, handle in handles]

    def dropped_keyed_states(self, operator: OperatorState) -> set[str]:
        """Return the names of the dropped managed keyed states."""
        dropped_names = self._dropped_states.get(operator.operator_id)
        return dropped_names & self.keyed_states(operator) if dropped_names else set()

    def keyed_states(self, operator: OperatorState) -> set[str]:
        """Return the names of all managed keyed states."""
        handles = self.handles(operator, "managed_keyed")
        return {state for i, handle in handles for state in states_in(self._keyed_header(i, handle))}

    def _keyed_header(self, subtask: int, handle: ChangelogHandle | IncrementalHandle | KeyGroupsHandle) -> bytes:
        if isinstance(handle, ChangelogHandle):
            (base,) = handle.base
            assert isinstance(base, IncrementalHandle | KeyGroupsHandle)
            return with_logged_states(self._keyed_header(subtask, base), list(changes_of(handle, self._bytes)))
        return (
            self._bytes(handle.meta) if isinstance(handle, IncrementalHandle) else self._keyed(subtask, handle).header
        )

    def databases(self, operator: OperatorState) -> list[tuple[int, dict[str, bytes]]]:
        """Return the files of each RocksDB directory, by their names in it, with the subtask."""
        handles = self.handles(operator, "managed_keyed")
        return [
            (i, {file.name: self._bytes(file.stream) for file in (*handle.shared, *handle.private)})
            for i, handle in handles
        ]

    def sst_files(self, operator: OperatorState) -> set[str]:
        """Return the names of the operator's SST files in the snapshot's own directory."""
        handles = [
            handle for _, handle in self.handles(operator, "managed_keyed") if isinstance(handle, IncrementalHandle)
        ]
        files = [file for handle in handles for file in (*handle.shared, *handle.private) if file.name.endswith(".sst")]
        return {file.stream.path for file in files if isinstance(file.stream, RelativeFileStream)}

    def kinds_of(self, operator: OperatorState) -> set[Kind]:
        dropped_names = self.dropped_keyed_states(operator)
        if dropped_names and dropped_names == self.keyed_states(operator):
            return set()
        return {kind_of(handle) for _, handle in self.handles(operator, "managed_keyed")}

    def has_changelogs(self, operator: OperatorState) -> bool:
        return any(isinstance(handle, ChangelogHandle) for _, handle in self.handles(operator, "managed_keyed"))

    def backend_ids(self) -> list[str]:
        """Return the backend ids of all RocksDB directories."""
        handles = [h for operator in self.metadata.operators for _, h in self.handles(operator, "managed_keyed")]
        return [handle.backend_id for handle in handles if isinstance(handle, IncrementalHandle)]

    def handles(self, operator: OperatorState, field: str) -> Iterator[tuple[int, Any]]:
        for subtask in operator.subtasks:
            handle = getattr(subtask.state or SubtaskState(), field)
            if handle is not None:
                yield subtask.index, handle

    def _keyed(self, subtask: int, handle: KeyGroupsHandle) -> KeyedGroups:
        data = self._bytes(handle.stream)
        first, absent_offsets = handle.first_key_group, (-1, 0) if data else (-1,)
        begins = [(o, first + i) for i, o in enumerate(handle.offsets) if o not in absent_offsets or _is_raw(handle, o)]
        ends = [*(offset for offset, _ in begins), len(data)][1:]
        groups = {group: data[begin:end] for (begin, group), end in zip(begins, ends, strict=True)}
        own_groups = list(range(first, first + len(handle.offsets)))
        return KeyedGroups(subtask, own_groups, data[: begins[0][0]] if begins else data, groups)

    def _elements(self, subtask: int, handle: OperatorHandle) -> Elements:
        data = self._bytes(handle.stream)
        begins = sorted({offset for state in handle.states for offset in state.offsets})
        ends = dict(pairwise([*begins, len(data)]))  # Flink reads from each offset, in the order of the handle
        states: dict[tuple[str, DistributionMode], list[bytes]] = {(s.name, s.mode): [] for s in handle.states}
        for state in handle.states:
            states[state.name, state.mode] += [data[offset : ends[offset]] for offset in state.offsets]
        return Elements(subtask, data[: begins[0]] if begins else data, states)

    def _bytes(self, stream: Stream) -> bytes:
        if isinstance(stream, InlineStream):
            return stream.data
        assert isinstance(stream, RelativeFileStream | FileStream)
        data_by_path = self._objects if isinstance(stream, RelativeFileStream) else self._elsewhere
        data = data_by_path.get(stream.path)
        assert_same(f"size of {stream.path}", stream.size, None if data is None else len(data))
        return data or b""


def state_names(stream: Elements) -> set[str]:
    return {name for name, _ in stream.states}


def _without_states(stream: Elements, names: Collection[str]) -> Elements:
    if not names:
        return stream
    states = {state: elements for state, elements in stream.states.items() if state[0] not in names}
    return stream._replace(header=operator_header_without(stream.header, names), states=states)


def _streams(handle: Any) -> list[Stream]:
    if isinstance(handle, IncrementalHandle):
        return [handle.meta, *(file.stream for file in (*handle.shared, *handle.private))]
    return [handle.stream]


def id_of_uid(uid: str) -> str:
    """Return the operator id of a uid by unseeded murmur3_128 (`StreamGraphHasherV2`)."""
    return mmh3.hash_bytes(uid.encode()).hex()


def _is_raw(handle: KeyGroupsHandle, offset: int) -> bool:
    """Return whether a raw key group begins at offset 0: a raw stream has no header, and its absent groups are -1."""
    return offset == 0 and handle.tag != HandleTag.SAVEPOINT_KEY_GROUPS

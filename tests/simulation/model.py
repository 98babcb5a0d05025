"""What a right result is, found out from the bytes of source and result alone.

It shares with `rescale` the reader of `_metadata` and its values, and nothing that deals, moves or compares: streams
are cut by their offsets here, records are told apart by the slow reader of the tests, and the rules for keys are
written down once more (`flinks_rules`). Keys whose key groups change are longs.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import mmh3

from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, SubtaskState
from rescale.flink.metadata.handles import (
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
from simulation.flinks_rules import key_group_of_code, key_groups_of_subtask, long_code
from simulation.native_databases import UnreadableError
from simulation.rows import KeyedRows, Kind, assert_rows, keyed_rows, kind_of, same
from support.canonical import Record, read_group


class Keyed(NamedTuple):
    """The keyed stream of a subtask: what stands before its key groups, and those that it has, by number."""

    subtask: int
    key_groups: list[int]
    header: bytes
    groups: dict[int, bytes]


class Elements(NamedTuple):
    """The operator state of a subtask: what stands before its elements, and these by state."""

    subtask: int
    header: bytes
    states: dict[tuple[str, DistributionMode], list[bytes]]


class Contents:
    """A snapshot, of its objects by name, and of those `elsewhere` that it may refer to, by URI."""

    def __init__(self, objects: Mapping[str, bytes], elsewhere: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._objects = objects
        self._elsewhere = elsewhere
        self.metadata: Metadata = read_metadata(objects["_metadata"], "_metadata")

    def operate(self, renames: Sequence[str], drops: Sequence[str]) -> None:
        """Other ids for operators, and none for those that are left out."""
        new = {_id_of_uid(one): _id_of_uid(other) for one, other in (words.split("=") for words in renames)}
        dropped = {_id_of_uid(uid) for uid in drops}
        stay = (one for one in self.metadata.operators if one.operator_id not in dropped)
        operators = tuple(replace(one, operator_id=new.get(one.operator_id, one.operator_id)) for one in stay)
        self.metadata = replace(self.metadata, operators=operators)

    def keyed(self, operator: OperatorState, field: str) -> list[Keyed]:
        return [self._keyed(i, handle) for i, handle in self._handles(operator, field)]

    def elements(self, operator: OperatorState, field: str) -> list[Elements]:
        return [self._elements(i, handle) for i, handle in self._handles(operator, field)]

    def names(self) -> set[str]:
        """Of all files of the snapshot's own that handles point to."""
        return {one.path for one in self._all_streams() if isinstance(one, RelativeFileStream)}

    def elsewhere(self) -> set[str]:
        """The URIs of all files that lie elsewhere."""
        return {one.path for one in self._all_streams() if isinstance(one, FileStream)}

    def _all_streams(self) -> list[Stream]:
        fields = ("managed_keyed", "raw_keyed", "managed_operator", "raw_operator")
        handles = [h for o in self.metadata.operators for field in fields for _, h in self._handles(o, field)]
        return [stream for handle in handles for stream in _streams(handle)]

    def kinds(self) -> set[Kind]:
        """Of managed keyed state."""
        return {kind for operator in self.metadata.operators for kind in self.kinds_of(operator)}

    def rows(self, operator: OperatorState) -> list[KeyedRows]:
        """Of managed keyed state."""
        handles = self._handles(operator, "managed_keyed")
        return [keyed_rows(i, handle, operator, self._bytes) for i, handle in handles]

    def databases(self, operator: OperatorState) -> list[tuple[int, dict[str, bytes]]]:
        """All files of directories by their names in them."""
        handles = self._handles(operator, "managed_keyed")
        return [
            (i, {file.name: self._bytes(file.stream) for file in (*handle.shared, *handle.private)})
            for i, handle in handles
        ]

    def kinds_of(self, operator: OperatorState) -> set[Kind]:
        return {kind_of(handle) for _, handle in self._handles(operator, "managed_keyed")}

    def backends(self) -> list[str]:
        """The names that RocksDB's backends take over from their directories."""
        handles = [h for one in self.metadata.operators for _, h in self._handles(one, "managed_keyed")]
        return [handle.backend_id for handle in handles if isinstance(handle, IncrementalHandle)]

    def _handles(self, operator: OperatorState, field: str) -> Iterator[tuple[int, Any]]:
        for subtask in operator.subtasks:
            handle = getattr(subtask.state or SubtaskState(), field)
            if handle is not None:
                yield subtask.index, handle

    def _keyed(self, subtask: int, handle: KeyGroupsHandle) -> Keyed:
        data = self._bytes(handle.stream)
        first, absent = handle.first_key_group, (-1, 0) if data else (-1,)
        begins = [(o, first + i) for i, o in enumerate(handle.offsets) if o not in absent or _is_raw(handle, o)]
        ends = [*(offset for offset, _ in begins), len(data)][1:]
        groups = {group: data[begin:end] for (begin, group), end in zip(begins, ends, strict=True)}
        own = list(range(first, first + len(handle.offsets)))
        return Keyed(subtask, own, data[: begins[0][0]] if begins else data, groups)

    def _elements(self, subtask: int, handle: OperatorHandle) -> Elements:
        data = self._bytes(handle.stream)
        begins = sorted((o, i, j) for i, state in enumerate(handle.states) for j, o in enumerate(state.offsets))
        ends = [*(begin for begin, _, _ in begins), len(data)][1:]
        states: dict[tuple[str, DistributionMode], list[bytes]] = {(s.name, s.mode): [] for s in handle.states}
        for (begin, i, _), end in zip(begins, ends, strict=True):
            state = handle.states[i]
            states[state.name, state.mode].append(data[begin:end])
        return Elements(subtask, data[: begins[0][0]] if begins else data, states)

    def _bytes(self, stream: Stream) -> bytes:
        if isinstance(stream, InlineStream):
            return stream.data
        assert isinstance(stream, RelativeFileStream | FileStream)
        place = self._objects if isinstance(stream, RelativeFileStream) else self._elsewhere
        data = place.get(stream.path)
        same(f"size of {stream.path}", stream.size, None if data is None else len(data))
        return data or b""


def assert_right(
    source: Mapping[str, bytes],
    result: Mapping[str, bytes],
    elsewhere: Mapping[str, bytes] = MappingProxyType({}),
    *,
    strangers: bool = False,
    renames: Sequence[str] = (),
    drops: Sequence[str] = (),
) -> None:
    """`WrongError` says what is lost, doubled, changed, or where Flink will not look for it.

    The result may refer to files `elsewhere`, which are there by their URIs. `strangers`: files of another run may lie
    beside it, too. `renames` (`OLD=NEW`) and `drops` are what was asked for of operators, by their uids.
    """
    old, new = Contents(source), Contents(result, elsewhere)
    old.operate(renames, drops)
    names = new.names() | {"_metadata"}
    same("files", names, names & set(result) if strangers else set(result))
    ours, theirs = old.metadata, new.metadata
    for field in ("version", "checkpoint_id", "masters"):
        same(field, getattr(ours, field), getattr(theirs, field))
    same("operators", [o.operator_id for o in ours.operators], [o.operator_id for o in theirs.operators])
    same("backends with a name of their own", len(new.backends()), len(set(new.backends())))
    for one, other in zip(ours.operators, theirs.operators, strict=True):
        for field in ("name", "uid", "coordinator", "fully_finished"):
            same(field, getattr(one, field), getattr(other, field))
        same("finished subtasks", _finished(one), _finished(other))
        by_row = _goes_by_row(old, new, one, other)
        if by_row:
            _assert_rows(old, new, one, other)
        for field in ("raw_keyed",) if by_row else ("managed_keyed", "raw_keyed"):
            _assert_keyed(old.keyed(one, field), new.keyed(other, field), one, other)
        for field in ("managed_operator", "raw_operator"):
            _assert_elements(old.elements(one, field), new.elements(other, field), one, other)


def assert_certified(certificate: bytes, result: Mapping[str, bytes]) -> None:
    """`WrongError` if it is not as it was written, or speaks for another `_metadata`, or hides what it rests on."""
    metadata = result["_metadata"]
    document = json.loads(certificate)
    said = document.pop("document_sha256")
    whole = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    same("digest of the certificate", hashlib.sha256(whole.encode()).hexdigest(), said)
    same("verdict", "complete", document["verdict"])
    same("certified metadata", hashlib.sha256(metadata).hexdigest(), document["candidate_sha256"])
    refers = "refers to files of the source" in (document["does_not_prove"] or "")
    same("whether it says that files lie elsewhere", bool(Contents(result).elsewhere()), refers)


def kinds_of(objects: Mapping[str, bytes], drops: Sequence[str] = ()) -> set[Kind]:
    """How keyed state lies, in operators that are not left out."""
    contents = Contents(objects)
    contents.operate((), drops)
    return contents.kinds()


def shapes_of(
    objects: Mapping[str, bytes], renames: Sequence[str] = (), drops: Sequence[str] = ()
) -> dict[str, tuple[int, int]]:
    """Parallelism and max parallelism of each operator, after it was renamed or left out."""
    contents = Contents(objects)
    contents.operate(renames, drops)
    operators = contents.metadata.operators
    return {one.operator_id: (one.parallelism, one.max_parallelism) for one in operators}


def _goes_by_row(old: Contents, new: Contents, one: OperatorState, other: OperatorState) -> bool:
    """Whether key groups are other bytes than they were, or lie in databases."""
    kinds = old.kinds_of(one) | new.kinds_of(other)
    rekeyed = one.max_parallelism != other.max_parallelism
    return len(kinds) > 1 or Kind.ROCKSDB in kinds or (Kind.HEAP in kinds and rekeyed)


def _assert_rows(old: Contents, new: Contents, one: OperatorState, other: OperatorState) -> None:
    """Databases that had rotted before they were copied as they are must be such copies."""
    try:
        kept = old.rows(one)
    except UnreadableError:
        if (one.parallelism, one.max_parallelism) != (other.parallelism, other.max_parallelism):
            raise
        same("files of databases", old.databases(one), new.databases(other))
        return
    assert_rows(kept, new.rows(other), one, other)


def _assert_keyed(old: list[Keyed], new: list[Keyed], one: OperatorState, other: OperatorState) -> None:
    for stream in new:
        own = key_groups_of_subtask(other.max_parallelism, other.parallelism, stream.subtask)
        same(f"key groups of subtask {stream.subtask}", own, stream.key_groups)
    if len({stream.header for stream in old}) == 1:
        if new or _groups(old):
            same("headers", {stream.header for stream in old}, {stream.header for stream in new})
        if one.max_parallelism == other.max_parallelism:
            same("key groups", _groups(old), _groups(new))
            return
    if one.max_parallelism == other.max_parallelism:
        same("numbers of the key groups", set(_groups(old)), set(_groups(new)))
        return
    kept, found = _records(old, one.max_parallelism), _records(new, other.max_parallelism)
    if len({stream.header for stream in old}) > 1:  # one has rotted: it gives another number to a state than the others
        kept, found = ([(group, record._replace(state=0)) for group, record in some] for some in (kept, found))
    same("records", Counter(record for _, record in kept), Counter(record for _, record in found))
    for group, record in found:
        code = long_code(int.from_bytes(record.key[:8], "big", signed=True))
        same("key group of a record", key_group_of_code(code, other.max_parallelism), group)


def _groups(streams: list[Keyed]) -> dict[int, bytes]:
    same("key groups that are there once", sum(len(one.groups) for one in streams), len({*_numbers(streams)}))
    return {group: data for stream in streams for group, data in stream.groups.items()}


def _numbers(streams: list[Keyed]) -> Iterator[int]:
    for stream in streams:
        yield from stream.groups


def _records(streams: list[Keyed], max_parallelism: int) -> list[tuple[int, Record]]:
    records = []
    for group, data in _groups(streams).items():
        for found_in, record in read_group(data, max_parallelism):
            same("key group in front of a key", group, found_in)
            records.append((group, record))
    return records


def _assert_elements(old: list[Elements], new: list[Elements], one: OperatorState, other: OperatorState) -> None:
    if len({stream.header for stream in old}) == 1:
        same("headers of operator state", {stream.header for stream in old}, {stream.header for stream in new})
    if one.parallelism == other.parallelism:
        same("operator state", _by_subtask(old), _by_subtask(new))
        return
    names = {state for stream in old for state in stream.states}
    same("states", names, {state for stream in new for state in stream.states})
    if old:
        same("subtasks with operator state", list(range(other.parallelism)), [stream.subtask for stream in new])
    for state in names:
        theirs = [stream.states.get(state, []) for stream in old]
        ours = [stream.states.get(state, []) for stream in new]
        if state[1] is DistributionMode.BROADCAST:
            copies = {tuple(some) for some in theirs if some}
            same(f"subtasks without a copy of {state[0]}", 0, sum(tuple(some) not in copies for some in ours if copies))
            continue
        same(f"elements of {state[0]}", *(Counter(e for some in side for e in some) for side in (theirs, ours)))
        counts = [len(some) for some in ours]
        same(f"whether {state[0]} is dealt evenly", True, max(counts) - min(counts) <= 1)


def _by_subtask(streams: list[Elements]) -> dict[int, dict[tuple[str, DistributionMode], list[bytes]]]:
    return {stream.subtask: stream.states for stream in streams}


def _streams(handle: Any) -> list[Stream]:
    if isinstance(handle, IncrementalHandle):
        return [handle.meta, *(file.stream for file in (*handle.shared, *handle.private))]
    return [handle.stream]


def _id_of_uid(uid: str) -> str:
    """`StreamGraphHasherV2`: murmur3_128 of it, without a seed."""
    return mmh3.hash_bytes(uid.encode()).hex()


def _finished(operator: OperatorState) -> list[int]:
    return [subtask.index for subtask in operator.subtasks if subtask.finished]


def _is_raw(handle: KeyGroupsHandle, offset: int) -> bool:
    """A raw stream has no header, so that its first key group may begin at 0; there -1 stands for none."""
    return offset == 0 and handle.tag != HandleTag.SAVEPOINT_KEY_GROUPS

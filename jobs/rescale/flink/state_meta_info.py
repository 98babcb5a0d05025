"""Description of a state in a header (`StateMetaInfoSnapshotReadersWriters`): name, kind, options, serializers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import read_versioned, type_name, write_versioned
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.subclasses import merge_snapshots
from rescale.flink.state_starts import serializer_starts
from rescale.text.errors import SnapshotError


class StateKind(IntEnum):
    """Kind of a state: the ordinals of `StateMetaInfoSnapshot.BackendStateType`."""

    KEY_VALUE = 0
    OPERATOR = 1
    BROADCAST = 2
    PRIORITY_QUEUE = 3
    KEY_VALUE_V2 = 4


class SerializerKey(StrEnum):
    """Purpose of a serializer (`StateMetaInfoSnapshot.CommonSerializerKeys`)."""

    KEY = "KEY_SERIALIZER"
    NAMESPACE = "NAMESPACE_SERIALIZER"
    VALUE = "VALUE_SERIALIZER"


@dataclass(frozen=True)
class StateMetaInfo:
    """Description of a state; `raw` holds its bytes in a header, which writers copy."""

    name: str
    kind: StateKind
    options: tuple[tuple[str, str], ...]
    serializers: tuple[tuple[str, SerializerSnapshot], ...]
    raw: bytes

    @property
    def state_type(self) -> str:
        """Type of the state: `VALUE`, `LIST`, `MAP`, … for keyed state; `UNION`, `SPLIT_DISTRIBUTE`, `BROADCAST` for
        operator state; `TIMERS` or `PRIORITY_QUEUE`."""
        if self.kind is StateKind.PRIORITY_QUEUE:
            return "TIMERS" if self.name.startswith("_timer_state/") else "PRIORITY_QUEUE"
        options = dict(self.options)
        return options.get("KEYED_STATE_TYPE") or options.get("OPERATOR_STATE_DISTRIBUTION_MODE") or self.kind.name

    def serializer(self, key: SerializerKey) -> SerializerSnapshot | None:
        """Return the serializer that the state has for the purpose `key`; None if there is none."""
        return dict(self.serializers).get(key)

    def with_kryo(self, version: int) -> StateMetaInfo:
        """Return the state with `version`, the major version of Kryo, added to its snapshots of Kryo.

        See `SerializerSnapshot.with_kryo`.
        """
        return replace(
            self, serializers=tuple((name, snapshot.with_kryo(version)) for name, snapshot in self.serializers)
        )

    @property
    def content_serializers(self) -> tuple[SerializerSnapshot, ...]:
        """All serializers except the namespace serializer."""
        return tuple(snapshot for key, snapshot in self.serializers if key != SerializerKey.NAMESPACE)


def read_state_meta_info(reader: ByteReader, end: int | None = None) -> StateMetaInfo:
    """Return the description at the reader's position.

    If the `end` of the description is given, serializers may be of any class. Otherwise a serializer of an unknown
    class raises `UnknownSerializerError`: its snapshot has no known end. Raises `SnapshotError` for damaged bytes.
    """
    start = reader.position
    name = reader.utf()
    at, kind = reader.position, reader.i32()
    if kind not in StateKind._value2member_map_:
        raise reader.error("an unknown kind of state", at=at, expected=f"0 to {max(StateKind)}", found=kind)
    options = tuple((reader.utf(), reader.utf()) for _ in range(reader.count(4)))
    serializer_count = reader.count(12)
    ends = (
        [None] * serializer_count
        if end is None
        else _entry_ends(reader, serializer_count, serializer_starts(reader, end), end)
    )
    serializers = tuple((reader.utf(), read_versioned(reader, end)) for end in ends)
    return StateMetaInfo(name, StateKind(kind), options, serializers, reader.data[start : reader.position])


def read_state_list(reader: ByteReader) -> tuple[StateMetaInfo, ...]:
    """Return the states of a list: an `i16` count, then the states. Raises the errors of `read_state_meta_info`."""
    return tuple(read_state_meta_info(reader) for _ in range(reader.non_negative(reader.i16, "number of states")))


def read_bounded_states(reader: ByteReader, starts: Sequence[int], end: int) -> tuple[StateMetaInfo, ...]:
    """Return the states of a list: an `i16` count, then the states at `starts`, the last of which ends at `end`.

    The serializers may be of any class. Raises `SnapshotError` if the count differs from the number of starts.
    """
    ends = _entry_ends(reader, reader.non_negative(reader.i16, "number of states"), starts, end)
    return tuple(read_state_meta_info(reader, end) for end in ends)


def _entry_ends(reader: ByteReader, entry_count: int, starts: Sequence[int], end: int) -> list[int]:
    """Return the ends of adjacent entries: each ends where the next of `starts` is, and the last at `end`.

    Raises `SnapshotError` unless there are `entry_count` entries, and the first starts at the reader's position.
    """
    first, *ends = (*starts, end)
    if len(ends) != entry_count or first != reader.position:
        raise reader.error(
            "the count in a header differs from the number of entries", expected=entry_count, found=len(ends)
        )
    return ends


def merge_state(infos: Sequence[StateMetaInfo]) -> StateMetaInfo:
    """Return a description that covers all `infos`, which describe the same state: one of them, or a merged one.

    `PojoSerializer` registers unknown subclasses when they occur, so the subtasks of an operator may list different
    subclasses. No other difference can be merged: raises `SnapshotError` if the descriptions contradict each other.
    """
    distinct = list(dict.fromkeys(infos))  # most subtasks have equal descriptions
    for info in distinct:
        if all(_covers_state(info, other) for other in distinct):
            return info
    merged_info: StateMetaInfo | None = distinct[0]
    for info in distinct[1:]:
        merged_info = merged_info and _merged_info(merged_info, info)
    if merged_info is None:
        type_texts = sorted({f"{info.state_type} of {type_names(info.content_serializers)}" for info in distinct})
        raise SnapshotError(
            "subtasks of the same operator registered the same state in different ways",
            state=distinct[0].name,
            expected="the same type and the same serializers in all subtasks",
            found=" and ".join(type_texts) if len(type_texts) > 1 else f"{type_texts[0]}, with serializers that differ",
            advice="restore the job with the same types in all subtasks, and take another savepoint; if all have "
            "the same types, a file is damaged: take another snapshot",
        )
    return merged_info


def type_names(snapshots: Iterable[SerializerSnapshot]) -> str:
    """Return the names of the types of serializers, each once."""
    return ", ".join(sorted({type_name(snapshot) for snapshot in snapshots}))


def _merged_info(info: StateMetaInfo, other: StateMetaInfo) -> StateMetaInfo | None:
    if not _differs_only_in_snapshots(info, other):
        return None
    other_serializers = dict(other.serializers)
    serializers: dict[str, SerializerSnapshot] = {}
    for name, snapshot in info.serializers:
        merged_snapshot = merge_snapshots(snapshot, other_serializers[name])
        if merged_snapshot is None:
            return None
        serializers[name] = merged_snapshot
    out = ByteWriter().utf(info.name).i32(info.kind)
    out.i32(len(info.options))
    for key, value in info.options:
        out.utf(key).utf(value)
    out.i32(len(serializers))
    for name, snapshot in serializers.items():
        out.utf(name)
        write_versioned(out, snapshot)
    return replace(info, serializers=tuple(serializers.items()), raw=out.bytes())


def _covers_state(wide: StateMetaInfo, narrow: StateMetaInfo) -> bool:
    if wide.raw == narrow.raw:
        return True
    narrow_serializers = dict(narrow.serializers)
    return _differs_only_in_snapshots(wide, narrow) and all(
        snapshot.covers(narrow_serializers[name]) for name, snapshot in wide.serializers
    )


def _differs_only_in_snapshots(info: StateMetaInfo, other: StateMetaInfo) -> bool:
    """Whether two descriptions agree in all but the serializers' snapshots."""
    purposes, other_purposes = dict(info.serializers).keys(), dict(other.serializers).keys()
    return (info.kind, dict(info.options), purposes) == (other.kind, dict(other.options), other_purposes)

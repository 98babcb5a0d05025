"""What a header says of each state (`StateMetaInfoSnapshotReadersWriters`): name, kind, options, serializers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import read_versioned, write_versioned
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.subclasses import put_together
from rescale.flink.state_starts import serializer_starts


class StateKind(IntEnum):
    """The ordinals of `StateMetaInfoSnapshot.BackendStateType`."""

    KEY_VALUE = 0
    OPERATOR = 1
    BROADCAST = 2
    PRIORITY_QUEUE = 3
    KEY_VALUE_V2 = 4


class SerializerKey(StrEnum):
    """What a serializer is for (`StateMetaInfoSnapshot.CommonSerializerKeys`)."""

    KEY = "KEY_SERIALIZER"
    NAMESPACE = "NAMESPACE_SERIALIZER"
    VALUE = "VALUE_SERIALIZER"


@dataclass(frozen=True)
class StateMetaInfo:
    """One state; `raw` are its verbatim bytes, from which it is written again."""

    name: str
    kind: StateKind
    options: tuple[tuple[str, str], ...]
    serializers: tuple[tuple[str, SerializerSnapshot], ...]
    raw: bytes

    @property
    def state_type(self) -> str:
        """`VALUE`, `LIST`, `MAP`, …; `UNION`, `SPLIT_DISTRIBUTE`, `BROADCAST`; `TIMERS` or `PRIORITY_QUEUE`."""
        if self.kind is StateKind.PRIORITY_QUEUE:
            return "TIMERS" if self.name.startswith("_timer_state/") else "PRIORITY_QUEUE"
        options = dict(self.options)
        return options.get("KEYED_STATE_TYPE") or options.get("OPERATOR_STATE_DISTRIBUTION_MODE") or self.kind.name

    def serializer(self, key: SerializerKey) -> SerializerSnapshot | None:
        """None if it has none for that."""
        return dict(self.serializers).get(key)

    @property
    def content_serializers(self) -> tuple[SerializerSnapshot, ...]:
        """All but that of namespaces."""
        return tuple(snapshot for key, snapshot in self.serializers if key != SerializerKey.NAMESPACE)


def read_state_meta_info(reader: ByteReader, end: int | None = None) -> StateMetaInfo:
    """The next state, up to `end` if that is known: then its serializers may be of any class.

    Otherwise one that is not known hides where it ends (`UnknownSerializer`).
    """
    start = reader.position
    name = reader.utf()
    at, kind = reader.position, reader.i32()
    if kind not in StateKind._value2member_map_:
        raise reader.error("an unknown kind of state", at=at, expected=f"0 to {max(StateKind)}", found=kind)
    options = tuple((reader.utf(), reader.utf()) for _ in range(reader.count(4)))
    number = reader.count(12)
    ends = [None] * number if end is None else _ends(reader, number, serializer_starts(reader, end), end)
    serializers = tuple((reader.utf(), read_versioned(reader, end)) for end in ends)
    return StateMetaInfo(name, StateKind(kind), options, serializers, reader.data[start : reader.position])


def read_state_list(reader: ByteReader) -> tuple[StateMetaInfo, ...]:
    """`i16` number of states, then each."""
    return tuple(read_state_meta_info(reader) for _ in range(_number(reader)))


def read_bounded_states(reader: ByteReader, starts: Sequence[int], end: int) -> tuple[StateMetaInfo, ...]:
    """`i16` number of states, then each from its place in `starts` to the next one's, the last up to `end`.

    Their serializers may be of any class. `SnapshotError` where as many do not stand there.
    """
    ends = _ends(reader, _number(reader), starts, end)
    return tuple(read_state_meta_info(reader, end) for end in ends)


def _number(reader: ByteReader) -> int:
    at, number = reader.position, reader.i16()
    if number < 0:
        raise reader.error("a number of states that cannot be", at=at, found=number)
    return number


def _ends(reader: ByteReader, number: int, starts: Sequence[int], end: int) -> list[int]:
    """Where each of `number` things ends that begin at `starts`, the first here, and fill the bytes up to `end`."""
    first, *ends = (*starts, end)
    if len(ends) != number or first != reader.position:
        raise reader.error("a header does not hold what it counts", expected=number, found=len(ends))
    return ends


def covering(infos: list[StateMetaInfo]) -> StateMetaInfo | None:
    """The one of several descriptions of a state that holds all the others, or one made of them; None if none can.

    `PojoSerializer` adds subclasses that it was not told of as it meets them, so that each subtask may know others.
    Any other difference is a real one.
    """
    unlike = list(dict.fromkeys(infos))  # of thousands of subtasks most say the same
    for info in unlike:
        if all(_covers_state(info, other) for other in unlike):
            return info
    found: StateMetaInfo | None = unlike[0]
    for info in unlike[1:]:
        found = found and _put_together(found, info)
    return found


def _put_together(one: StateMetaInfo, other: StateMetaInfo) -> StateMetaInfo | None:
    if not _same_kind(one, other):
        return None
    others = dict(other.serializers)
    serializers: dict[str, SerializerSnapshot] = {}
    for name, snapshot in one.serializers:
        both = put_together(snapshot, others[name])
        if both is None:
            return None
        serializers[name] = both
    out = ByteWriter()
    out.utf(one.name)
    out.i32(one.kind)
    out.i32(len(one.options))
    for key, value in one.options:
        out.utf(key)
        out.utf(value)
    out.i32(len(serializers))
    for name, snapshot in serializers.items():
        out.utf(name)
        write_versioned(out, snapshot)
    return replace(one, serializers=tuple(serializers.items()), raw=out.bytes())


def _covers_state(wide: StateMetaInfo, narrow: StateMetaInfo) -> bool:
    if wide.raw == narrow.raw:
        return True
    others = dict(narrow.serializers)
    return _same_kind(wide, narrow) and all(snapshot.covers(others[name]) for name, snapshot in wide.serializers)


def _same_kind(one: StateMetaInfo, other: StateMetaInfo) -> bool:
    """Whether they differ in serializers at most."""
    mine, others = dict(one.serializers).keys(), dict(other.serializers).keys()
    return (one.kind, dict(one.options), mine) == (other.kind, dict(other.options), others)

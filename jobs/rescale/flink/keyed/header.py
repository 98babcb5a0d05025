"""Header of a keyed stream (`KeyedBackendSerializationProxy`): key serializer and states.

The id of a state is its index in the list. Subtasks may register their states in different orders, or only some of
them, so the same state can have different ids. Merging headers maps these old ids to new ones.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT, UPGRADE_OLD_STATE
from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import read_versioned, write_versioned
from rescale.flink.serializers.snapshot import SerializerSnapshot, UnknownSerializerError
from rescale.flink.serializers.subclasses import merge_all_snapshots
from rescale.flink.state_meta_info import StateMetaInfo, merge_state, read_bounded_states, read_state_list, type_names
from rescale.flink.state_starts import STATE_COUNT_SIZE, state_starts
from rescale.text.errors import SnapshotError, UnsupportedError

VERSION = 6

NO_NEW_ID = -1
"""Stands for the missing new id of a state that a merged header does not list."""

MOST_UNKNOWN_STATES = 64
"""Largest number of states that is assumed for a stream whose header has an unknown serializer and cannot be read."""


@dataclass(frozen=True)
class KeyedHeader:
    """Header of a keyed stream; if `compressed`, each key group is a separate snappy stream."""

    compressed: bool
    key_serializer: SerializerSnapshot
    states: tuple[StateMetaInfo, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the states, by id."""
        return tuple(state.name for state in self.states)

    def with_kryo(self, version: int) -> KeyedHeader:
        """Return the header with `version`, the major version of Kryo, added to its snapshots of Kryo.

        See `SerializerSnapshot.with_kryo`.
        """
        states = tuple(state.with_kryo(version) for state in self.states)
        return replace(self, key_serializer=self.key_serializer.with_kryo(version), states=states)


class MergedHeader(NamedTuple):
    """Merged header, and the new ids: `id_maps[i][old id]` is the new id of a state of header i, or `NO_NEW_ID`."""

    header: KeyedHeader
    id_maps: tuple[tuple[int, ...], ...]


def read_keyed_header(data: bytes, path: str) -> KeyedHeader:
    """Return the header in `data`, which must end after the header; `path` names the stream in errors.

    Raises `SnapshotError` for a damaged header, and `UnknownSerializerError` if a serializer's class is unknown and the
    states cannot be delimited without it (`state_starts`).
    """
    reader = ByteReader(data, path)
    version = reader.i32()
    if version != VERSION:
        error = reader.error("an unknown version of keyed state", at=0, expected=VERSION, found=version)
        raise error.located(advice=UPGRADE_OLD_STATE if 0 < version < VERSION else None)
    compressed = reader.boolean()
    start = reader.position
    try:
        header = KeyedHeader(compressed, read_versioned(reader), read_state_list(reader))
    except UnknownSerializerError as unknown:
        reader.position = start
        return _read_by_state_starts(reader, compressed, unknown)
    if reader.remaining:
        raise reader.error("bytes between the header and the first key group", expected=0, found=reader.remaining)
    return header


def _read_by_state_starts(reader: ByteReader, is_compressed: bool, error: UnknownSerializerError) -> KeyedHeader:
    """Return a header that may have unknown serializers; the module `state_starts` finds the starts of its states.

    Raises `error` if the starts do not fit the count of states.
    """
    starts = state_starts(reader)
    try:
        key_serializer = read_versioned(reader, (*starts, reader.end)[0] - STATE_COUNT_SIZE)
        return KeyedHeader(is_compressed, key_serializer, read_bounded_states(reader, starts, reader.end))
    except SnapshotError:
        raise error from None


def require_header(header: KeyedHeader | None, *, advice: str = RESCALE_CANONICAL_SAVEPOINT) -> KeyedHeader:
    """Return the header. Raises `UnsupportedError` with `advice` for None: an unknown serializer hides the states."""
    if header is None:
        raise UnsupportedError("an unknown serializer hides the names of the states", advice=advice)
    return header


def is_compressed(data: bytes) -> bool:
    """Whether the key groups of a stream that begins with `data` are compressed; reads five bytes of the header."""
    reader = ByteReader(data)
    reader.i32()
    return reader.boolean()


def write_keyed_header(header: KeyedHeader) -> bytes:
    """Return the bytes of the header; the inverse of `read_keyed_header`."""
    out = ByteWriter().i32(VERSION).boolean(header.compressed)
    write_versioned(out, header.key_serializer)
    out.i16(len(header.states))
    for state in header.states:
        out.raw(state.raw)
    return out.bytes()


def merge_keyed_headers(headers: Sequence[KeyedHeader], dropped_states: Collection[str] = ()) -> MergedHeader:
    """Return a header with the states of all headers in first-seen order, except those named in `dropped_states`.

    Raises `SnapshotError` if headers differ in compression or key serializer, or describe a state in incompatible ways.
    """
    if len({header.compressed for header in headers}) > 1:
        raise SnapshotError("some keyed streams of an operator are compressed and others are not")
    key_serializers = [header.key_serializer for header in headers]
    key_serializer = merge_all_snapshots(key_serializers)
    if key_serializer is None:
        raise SnapshotError(
            "subtasks of the same operator have different key serializers",
            found=type_names(key_serializers),
            advice="take another snapshot: Flink writes the same key serializer for all subtasks",
        )
    states_by_name: dict[str, list[StateMetaInfo]] = {}
    for header in headers:
        for i, state in enumerate(header.states):
            if any(state.name == earlier.name for earlier in header.states[:i]):
                raise SnapshotError("a keyed stream lists a state twice", state=state.name)
            if state.name not in dropped_states:
                states_by_name.setdefault(state.name, []).append(state)
    merged_header = KeyedHeader(headers[0].compressed, key_serializer, tuple(map(merge_state, states_by_name.values())))
    new_id_by_name = {name: i for i, name in enumerate(states_by_name)}
    id_maps = (tuple(new_id_by_name.get(state.name, NO_NEW_ID) for state in header.states) for header in headers)
    return MergedHeader(merged_header, tuple(id_maps))

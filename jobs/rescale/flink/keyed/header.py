"""The header of a keyed stream (`KeyedBackendSerializationProxy`): key serializer and states.

A state's id is its place in the list. Subtasks that registered their states in another order, or not all of them, have
other lists; merging headers says which new id each old one gets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import read_versioned, type_name, write_versioned
from rescale.flink.serializers.snapshot import SerializerSnapshot, UnknownSerializer
from rescale.flink.serializers.subclasses import all_put_together
from rescale.flink.state_meta_info import StateMetaInfo, covering, read_bounded_states, read_state_list
from rescale.flink.state_starts import NUMBER_SIZE, state_starts

VERSION = 6

LEFT_OUT = -1
"""In place of the new id of a state that a merged header does not list."""


@dataclass(frozen=True)
class KeyedHeader:
    """`compressed`: every key group is a snappy stream of its own."""

    compressed: bool
    key_serializer: SerializerSnapshot
    states: tuple[StateMetaInfo, ...]


class MergedHeader(NamedTuple):
    """`id_maps[i][old id]` is the new id of a state of the i-th header, or `LEFT_OUT`."""

    header: KeyedHeader
    id_maps: tuple[tuple[int, ...], ...]


def read_keyed_header(data: bytes, path: str) -> KeyedHeader:
    """The header that `data` is, to its last byte.

    Raises `UnknownSerializer` where a class is not known, and where the states begin cannot be told either.
    """
    reader = ByteReader(data, path)
    version = reader.i32()
    if version != VERSION:
        raise reader.error("an unknown version of keyed state", at=0, expected=VERSION, found=version)
    compressed = reader.boolean()
    start = reader.position
    try:
        header = KeyedHeader(compressed, read_versioned(reader), read_state_list(reader))
    except UnknownSerializer as unknown:
        reader.position = start
        return _bounded(reader, compressed, unknown)
    if reader.remaining:
        raise reader.error("bytes between the header and the first key group", expected=0, found=reader.remaining)
    return header


def _bounded(reader: ByteReader, compressed: bool, unknown: UnknownSerializer) -> KeyedHeader:
    """Read by where the states begin, before which the number of them stands."""
    starts = state_starts(reader)
    try:
        key_serializer = read_versioned(reader, (*starts, reader.end)[0] - NUMBER_SIZE)
        return KeyedHeader(compressed, key_serializer, read_bounded_states(reader, starts, reader.end))
    except SnapshotError:
        raise unknown from None


def understood(header: KeyedHeader | None, *, advice: str = CANONICAL) -> KeyedHeader:
    """The header; `UnsupportedError` if it is None, where records are told apart by the names of their states."""
    if header is None:
        raise UnsupportedError("a serializer is not known that hides the names of the states", advice=advice)
    return header


def is_compressed(data: bytes) -> bool:
    """Whether the header that begins with `data` says so, however little is known of the rest."""
    reader = ByteReader(data)
    reader.i32()
    return reader.boolean()


def write_keyed_header(header: KeyedHeader) -> bytes:
    out = ByteWriter()
    out.i32(VERSION)
    out.boolean(header.compressed)
    write_versioned(out, header.key_serializer)
    out.i16(len(header.states))
    for state in header.states:
        out.raw(state.raw)
    return out.bytes()


def merge_keyed_headers(headers: Sequence[KeyedHeader], left_out: Collection[str] = ()) -> MergedHeader:
    """One header with the states of all, in first-seen order, but for those that are `left_out`.

    `SnapshotError` names the state that differs.
    """
    if len({header.compressed for header in headers}) > 1:
        raise SnapshotError("some keyed streams of one operator are compressed and some are not")
    keys = [header.key_serializer for header in headers]
    key = all_put_together(keys)
    if key is None:
        raise SnapshotError(
            "the subtasks of one operator have different key serializers",
            found=_names(keys),
            advice="take another snapshot: in the same one, Flink writes them alike",
        )
    by_name: dict[str, list[StateMetaInfo]] = {}
    for header in headers:
        for i, state in enumerate(header.states):
            if any(state.name == other.name for other in header.states[:i]):
                raise SnapshotError("a keyed stream lists a state twice", state=state.name)
            if state.name not in left_out:
                by_name.setdefault(state.name, []).append(state)
    merged = KeyedHeader(headers[0].compressed, key, tuple(_one(name, infos) for name, infos in by_name.items()))
    ids = {name: i for i, name in enumerate(by_name)}
    id_maps = (tuple(ids.get(state.name, LEFT_OUT) for state in header.states) for header in headers)
    return MergedHeader(merged, tuple(id_maps))


def _one(name: str, infos: list[StateMetaInfo]) -> StateMetaInfo:
    info = covering(infos)
    if info is None:
        raise SnapshotError(
            "the subtasks of one operator have registered a state in different ways",
            state=name,
            advice="restore the job once with the same types everywhere and take another savepoint",
        )
    return info


def _names(snapshots: Sequence[SerializerSnapshot]) -> str:
    return ", ".join(sorted({type_name(snapshot) for snapshot in snapshots}))

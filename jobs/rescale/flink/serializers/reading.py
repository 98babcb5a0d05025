"""Reader and writer of serializer snapshots.

A snapshot is written as `className:utf version:i32 body` without a length, so only the layout of the body tells where
the next value begins. The reader cannot go on after a snapshot whose class has no row in the registry.
"""

from __future__ import annotations

import re

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.registry import row_of
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot, UnknownSerializerError, short_class_name
from rescale.flink.serializers.snapshot_body import Body, read_to_end

PROXY_VERSION = 2
"""Version of `TypeSerializerSnapshotSerializationUtil.TypeSerializerSnapshotSerializationProxy`."""

MAX_DEPTH = 64

_CLASS_NAME = re.compile(r"[^\s\x00-\x1f./;\[]+(\.[^\s\x00-\x1f./;\[]+)*")
"""Pattern of the binary class names that the JVM accepts."""


def read_snapshot(reader: ByteReader, depth: int = 0) -> SerializerSnapshot:
    """Return the snapshot at the reader's position (`TypeSerializerSnapshot.writeVersionedSnapshot`).

    Raises `UnknownSerializerError` for an unknown class or version, and `SnapshotError` if the bytes are no snapshot.
    """
    at = reader.position
    class_name, version = reader.utf(), reader.i32()
    if not _CLASS_NAME.fullmatch(class_name):
        raise reader.error("not a serializer snapshot", at=at, expected="the name of a class", found=repr(class_name))
    if depth > MAX_DEPTH:
        raise reader.error("serializers nested too deep", at=at, expected=f"at most {MAX_DEPTH} levels")
    row = row_of(class_name)
    if row is None or version not in row.versions:
        raise UnknownSerializerError(class_name, version, reader.path, at)
    body = Body(reader, class_name, version, row.outer_versions, lambda inner: read_snapshot(inner, depth + 1))
    row.layout(body)
    return body.finish()


def read_versioned(reader: ByteReader, end: int | None = None) -> SerializerSnapshot:
    """Return the snapshot that follows a `PROXY_VERSION`. Its class may be unknown if the snapshot's `end` is given.

    Raises the errors of `read_snapshot`.
    """
    at = reader.position
    proxy_version = reader.i32()
    if proxy_version != PROXY_VERSION:
        raise reader.error("an unknown form of serializer snapshot", at=at, expected=PROXY_VERSION, found=proxy_version)
    if end is None:
        return read_snapshot(reader)
    frame = ByteReader(reader.data, reader.path, reader.position, end)
    reader.position = end
    return read_to_end(frame, read_snapshot)


def write_versioned(out: ByteWriter, snapshot: SerializerSnapshot) -> None:
    """Write `PROXY_VERSION`, then a snapshot; the inverse of `read_versioned`."""
    out.i32(PROXY_VERSION).raw(snapshot_bytes(snapshot))


def snapshot_bytes(snapshot: SerializerSnapshot) -> bytes:
    """Return the bytes of a snapshot; the inverse of `read_snapshot`."""
    return ByteWriter().utf(snapshot.class_name).i32(snapshot.version).raw(snapshot.body).bytes()


def type_name(snapshot: SerializerSnapshot) -> str:
    """Return the readable name of the type: `Long`, `Tuple2<String, Int>`, `List<POJO com.x.Y>`."""
    row = None if snapshot.values(UNKNOWN) else row_of(snapshot.class_name)
    if row is None:
        return short_class_name(snapshot.class_name)
    attributes = {name: short_class_name(value) for name, value in reversed(snapshot.attributes)}
    name = row.name.format_map(attributes)
    shown_snapshots = snapshot.nested[slice(*row.shown)]
    return f"{name}<{', '.join(map(type_name, shown_snapshots))}>" if shown_snapshots else name

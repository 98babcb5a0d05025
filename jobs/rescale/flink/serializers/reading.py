"""Reading serializer snapshots.

A snapshot is written as `className:utf version:i32 body` with no length in front, so the layout of the body must be
known to find what follows. A class without a row in the registry ends the reading.
"""

from __future__ import annotations

from rescale.flink.binary import ByteReader
from rescale.flink.serializers.registry import ROWS, short_class_name
from rescale.flink.serializers.snapshot import SerializerSnapshot, UnknownSerializer

PROXY_VERSION = 2
"""`TypeSerializerSnapshotSerializationUtil.TypeSerializerSnapshotSerializationProxy`."""

MAX_DEPTH = 64


def read_snapshot(reader: ByteReader, depth: int = 0) -> SerializerSnapshot:
    """`TypeSerializerSnapshot.writeVersionedSnapshot`: class name, version, body."""
    at = reader.position
    class_name, version = reader.utf(), reader.i32()
    if depth > MAX_DEPTH:
        raise reader.error("serializers nested too deep", at=at, expected=f"at most {MAX_DEPTH} levels")
    row = ROWS.get(class_name)
    if row is None:
        raise UnknownSerializer(
            f"the serializer snapshot {class_name} is not known",
            path=reader.path,
            offset=at,
            advice="changing the parallelism needs no serializers; only what must look into keys or values is refused",
        )
    start = reader.position
    attributes, nested = row.layout(reader, version, lambda inner: read_snapshot(inner, depth + 1))
    return SerializerSnapshot(class_name, version, reader.data[start : reader.position], nested, attributes)


def read_versioned(reader: ByteReader) -> SerializerSnapshot:
    """A snapshot behind the proxy's own version."""
    at = reader.position
    version = reader.i32()
    if version != PROXY_VERSION:
        raise reader.error("an unknown form of serializer snapshot", at=at, expected=PROXY_VERSION, found=version)
    return read_snapshot(reader)


def type_name(snapshot: SerializerSnapshot) -> str:
    """What people call the type: `Long`, `Tuple2<String, Int>`, `List<POJO com.x.Y>`."""
    attributes = {name: short_class_name(value) for name, value in reversed(snapshot.attributes)}
    name = ROWS[snapshot.class_name].name.format_map(attributes)
    shown = () if name.startswith("POJO") else snapshot.nested
    if name == "TTL":
        shown = snapshot.nested[1:]
    return f"{name}<{', '.join(map(type_name, shown))}>" if shown else name

"""Serializer snapshots and headers, written byte by byte as Flink does."""

from __future__ import annotations

import struct

from rescale.flink.encoding.binary import ByteReader, encode_modified_utf8
from rescale.flink.serializers.reading import read_snapshot
from rescale.flink.serializers.registry import FLINK_ROWS
from rescale.flink.serializers.snapshot import SerializerSnapshot

BASE = "org.apache.flink.api.common.typeutils.base."
RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
STATE = "org.apache.flink.runtime.state."
POJO = RUNTIME + "PojoSerializerSnapshot"


def utf(text: str) -> bytes:
    encoded = encode_modified_utf8(text)
    return struct.pack(">H", len(encoded)) + encoded


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def snapshot(class_name: str, version: int = 3, body: bytes = b"") -> bytes:
    return utf(class_name) + i32(version) + body


def simple(kind: str) -> bytes:
    return snapshot(f"{BASE}{kind}Serializer${kind}SerializerSnapshot")


INT, LONG, STRING = simple("Int"), simple("Long"), simple("String")
VOID_NAMESPACE = snapshot(STATE + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot")
CUSTOM = snapshot("com.example.Money$Snapshot", 7, b"\1\2\3")


def nested(*snapshots: bytes) -> bytes:
    return i32(1333245, 1, len(snapshots)) + b"".join(snapshots)


def composite(class_name: str, *snapshots: bytes, outer: bytes = b"", outer_version: int | None = None) -> bytes:
    """Return a composite snapshot; by default, its `outer_version` is the newest."""
    if outer_version is None:
        outer_version = max(FLINK_ROWS[class_name].outer_versions)
    return snapshot(class_name, 3, i32(911108, outer_version) + outer + nested(*snapshots))


def co_grouped(first: bytes, second: bytes) -> bytes:
    """Return the serializer snapshot of the elements in a window over two streams."""
    return composite(
        "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot", first, second
    )


def list_of(element: bytes) -> bytes:
    return composite(BASE + "ListSerializerSnapshot", element)


def optional_map(entries: dict[str, tuple[bytes | None, bytes | None]]) -> bytes:
    out = struct.pack(">qi", 0x4F2C69A3D70, len(entries))
    for name, frames in entries.items():
        out += utf(name)
        for frame in frames:
            out += b"\0" if frame is None else b"\1" + i32(len(frame)) + frame
    return out


def kryo(class_name: str, registrations: dict[str, bytes] | None = None) -> bytes:
    maps = optional_map({name: (None, value) for name, value in (registrations or {}).items()}) + optional_map({}) * 2
    return snapshot(RUNTIME + "kryo.KryoSerializerSnapshot", 2, utf(class_name) + maps)


def pojo(
    fields: dict[str, bytes | None],
    subclasses: dict[str, bytes | None] | None = None,
    registered: dict[str, bytes | None] | None = None,
    name: str = "com.example.Order",
) -> bytes:
    """Return the snapshot of a POJO serializer; `subclasses` and `registered` have serializer snapshots by class."""
    keyed = {field: (utf(name) + utf(field), value) for field, value in fields.items()}
    known = [{n: (b"", value) for n, value in (classes or {}).items()} for classes in (registered, subclasses)]
    return snapshot(POJO, 2, utf(name) + b"".join(map(optional_map, (keyed, *known))))


def parsed(data: bytes) -> SerializerSnapshot:
    reader = ByteReader(data, "header")
    result = read_snapshot(reader)
    assert reader.remaining == 0
    return result


def state(name: str, kind: int, options: dict[str, str], serializers: dict[str, bytes]) -> bytes:
    out = utf(name) + i32(kind, len(options))
    out += b"".join(utf(key) + utf(value) for key, value in options.items())
    out += i32(len(serializers))
    return out + b"".join(utf(key) + i32(2) + serializer for key, serializer in serializers.items())


def keyed_state(name: str, value: bytes = LONG, state_type: str = "VALUE") -> bytes:
    serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": VOID_NAMESPACE}
    return state(name, 0, {"KEYED_STATE_TYPE": state_type}, serializers)


def operator_list(name: str, element: bytes = STRING, mode: str = "SPLIT_DISTRIBUTE") -> bytes:
    return state(name, 1, {"OPERATOR_STATE_DISTRIBUTION_MODE": mode}, {"VALUE_SERIALIZER": element})


def broadcast_state(name: str, value: bytes = LONG) -> bytes:
    serializers = {"KEY_SERIALIZER": STRING, "VALUE_SERIALIZER": value}
    return state(name, 2, {"OPERATOR_STATE_DISTRIBUTION_MODE": "BROADCAST"}, serializers)


def keyed_header(*states: bytes, key: bytes = STRING, compressed: bool = False) -> bytes:
    return i32(6) + bytes((compressed,)) + i32(2) + key + struct.pack(">h", len(states)) + b"".join(states)


def operator_header(
    lists: tuple[bytes, ...] = (), broadcasts: tuple[bytes, ...] = (), *, version: int = 6, compressed: bool = False
) -> bytes:
    out = i32(version) + (bytes((compressed,)) if version > 5 else b"")
    for states in (lists, broadcasts):
        out += struct.pack(">h", len(states)) + b"".join(states)
    return out + (bytes.fromhex("ff060000734e61507059") if compressed else b"")


HIDING = snapshot("com.example.Money$Snapshot", 7, keyed_state("hidden"))
"""An unknown serializer with bytes that look like the start of a state."""

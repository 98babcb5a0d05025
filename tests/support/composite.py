"""Composite keys and timers, one at a time, as `SerializedCompositeKeyBuilder` and `TimerSerializer` write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from rescale.flink.keyed.blocks.records import Records
from support.canonical import Record
from support.snapshot_bytes import STRING, composite, snapshot, state

_WINDOWS = "org.apache.flink.streaming.api.windowing.windows."
TIME_WINDOW = snapshot(_WINDOWS + "TimeWindow$Serializer$TimeWindowSerializerSnapshot")


def length_bytes(length: int) -> bytes:
    """Return the length that follows a key or a namespace: little-endian, in as few bytes as possible, at least one."""
    return length.to_bytes(max(1, (length.bit_length() + 7) // 8), "little")


def composite_key(key: bytes, namespace: bytes, *, ambiguous: bool, user_key: bytes = b"") -> bytes:
    """Return a composite key, with lengths if it is `ambiguous`: neither key nor namespace has a fixed size."""
    if ambiguous:
        return key + length_bytes(len(key)) + namespace + length_bytes(len(namespace)) + user_key
    return key + namespace + user_key


def timer(timestamp: int, key: bytes, namespace: bytes) -> bytes:
    return struct.pack(">Q", timestamp + (1 << 63)) + key + namespace


def keyed(name: str, namespace: bytes, state_type: str = "VALUE") -> bytes:
    """Return the header entry of a keyed state whose namespaces have the serializer snapshot `namespace`."""
    return state(
        name, 0, {"KEYED_STATE_TYPE": state_type}, {"VALUE_SERIALIZER": STRING, "NAMESPACE_SERIALIZER": namespace}
    )


def timers(name: str, key: bytes, namespace: bytes) -> bytes:
    """Return the header entry of timers."""
    class_name = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"
    return state(name, 3, {}, {"VALUE_SERIALIZER": composite(class_name, key, namespace)})


def records_in_buffer(records: Sequence[Record], groups: Sequence[int]) -> Records:
    """Return records inside a buffer with other bytes around them, as a reader gets them."""
    data = bytearray(b"\xee\xee\xee")
    places = []
    for record in records:
        start = len(data)
        data += record.key + struct.pack(">i", len(record.value)) + record.value + b"\xee\xee\xee"
        places.append((start, start + len(record.key), start + len(record.key) + 4 + len(record.value)))
    starts, key_ends, ends = (np.array([place[i] for place in places], np.int64) for i in range(3))
    return Records(
        np.frombuffer(data, np.uint8),
        starts,
        key_ends,
        ends,
        np.array([record.state for record in records], np.int64),
        np.array(groups, np.int64),
    )

"""Kafka offsets as the connectors write them, spelled out byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from rescale.flink.redistribution import java_string_hash
from support.snapshot_bytes import i32, utf

NO_STOP = -(1 << 63)


def versioned(version: int, data: bytes) -> bytes:
    return i32(version, len(data)) + data


def split(topic: str, partition: int, offset: int, stop: int = NO_STOP) -> bytes:
    return utf(topic) + i32(partition) + struct.pack(">qq", offset, stop)


def reader_element(topic: str, partition: int, offset: int, stop: int = NO_STOP, version: int = 0) -> bytes:
    data = versioned(version, split(topic, partition, offset, stop))
    return i32(len(data)) + data


def enumerator(entries: Iterable[tuple[str, int, int]]) -> bytes:
    """A coordinator's state with an enumerator's of version 2: topic, partition, status (0: assigned)."""
    listed = [utf(topic) + i32(partition, status) for topic, partition, status in entries]
    return i32(1) + versioned(2, i32(len(listed)) + b"".join(listed) + b"\1")


def consumer_element(topic: str, partition: int, last: int, class_id: int = 0x57) -> bytes:
    """A `Tuple2<KafkaTopicPartition, Long>`, the first by Kryo 2.24."""
    cached = (31 * java_string_hash(topic) + partition + (1 << 31)) % (1 << 32) - (1 << 31)
    fields = _zigzag(cached) + _zigzag(partition) + b"\1" + _string(topic)
    return bytes((class_id, 1)) + fields + struct.pack(">q", last)


def _zigzag(number: int) -> bytes:
    return _packed((number << 1 ^ number >> 31) & 0xFFFFFFFF)


def _packed(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _string(text: str) -> bytes:
    if 1 < len(text) < 64:
        return text[:-1].encode() + bytes((ord(text[-1]) | 0x80,))
    length = len(text) + 1
    head = bytes((0x80 | length,)) if length < 0x40 else bytes((0xC0 | length & 0x3F,)) + _packed(length >> 6)
    return head + text.encode()

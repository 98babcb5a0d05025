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


def dynamic_element(cluster: str, topic: str, partition: int, offset: int, version: int = 1) -> bytes:
    """A split of a `DynamicKafkaSource`."""
    data = versioned(version, utf(cluster) + i32(0) + split(topic, partition, offset))
    return i32(len(data)) + data


def dynamic_enumerator(cluster: str, topic: str, version: int = 1, streams: int = 1) -> bytes:
    """A coordinator's state with its enumerator's: as many streams of one cluster, whose partition 0 is assigned.

    Since version 2 a cluster has where to begin, as a serialized object, and where to end, here without one.
    """
    bounds = b"\1" + i32(3) + b"any" + b"\0" if version > 1 else b""
    stream = utf("stream") + i32(1) + utf(cluster) + i32(1) + utf(topic) + utf("kafka:9092") + bounds
    kafka = i32(1) + utf(topic) + i32(0, 0) + b"\1"
    clusters = i32(1) + utf(cluster) + i32(len(kafka)) + kafka
    return i32(1) + versioned(version, i32(streams) + streams * stream + i32(2) + clusters)


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

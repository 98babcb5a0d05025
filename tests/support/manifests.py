"""MANIFESTs that no real Flink writes, in the format of `log::Writer` and `VersionEdit::EncodeTo`."""

from __future__ import annotations

import struct

from rescale.rocksdb.manifest.log_framing import BLOCK_SIZE, masked_crc32c
from support.java_values import varint

FULL, FIRST, MIDDLE, LAST = range(1, 5)
VALUE, RANGE_DELETION = 1, 15


def piece(kind: int, payload: bytes) -> bytes:
    """Return a physical record."""
    return struct.pack("<IHB", masked_crc32c(bytes([kind]) + payload), len(payload), kind) + payload


def log(*payloads: bytes) -> bytes:
    """Return a log file of these records, split at the borders of blocks."""
    out = bytearray()
    for payload in payloads:
        first = True
        while True:
            left = BLOCK_SIZE - len(out) % BLOCK_SIZE
            if left < 7:
                out += bytes(left)
                left = BLOCK_SIZE
            part, payload = payload[: left - 7], payload[left - 7 :]
            kinds = (FIRST, FULL) if first else (MIDDLE, LAST)
            out += piece(kinds[not payload], part)
            first = False
            if not payload:
                break
    return bytes(out)


def slice_(data: bytes) -> bytes:
    return varint(len(data)) + data


def number(tag: int, value: int) -> bytes:
    """Return a field whose value is a number."""
    return varint(tag) + varint(value)


def text(tag: int, value: bytes) -> bytes:
    """Return a field whose value is a slice."""
    return varint(tag) + slice_(value)


def internal_key(key: bytes, sequence: int = 1, kind: int = VALUE) -> bytes:
    return key + struct.pack("<Q", sequence << 8 | kind)


def new_file(
    file: int,
    *,
    level: int = 0,
    smallest: bytes = b"\x01",
    largest: bytes = b"\x02",
    sequence: int = 1,
    custom: bytes = b"",
    tag: int = 103,
    path_id: bytes = b"",
) -> bytes:
    """Return the field of a new file of 1000 bytes; `custom` are its custom fields, only for tag 103."""
    keys = slice_(internal_key(smallest, sequence)) + slice_(internal_key(largest, sequence))
    head = varint(tag) + varint(level) + varint(file) + path_id + varint(1000)
    tail = custom + varint(1) if tag == 103 else b""
    return head + keys + varint(sequence) * 2 + tail


COMPARATOR = text(1, b"leveldb.BytewiseComparator")
START = COMPARATOR + number(2, 0) + number(3, 50) + number(4, 9)
"""Start of every MANIFEST: next file number 50, last sequence 9."""

ADD_STATE = number(200, 1) + text(201, b"state") + COMPARATOR
OF_STATE = number(200, 1)

"""Slow twin of readers and writers of canonical framing, one record at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

END_OF_GROUP = 0xFFFF
FLAG = 0x80


class Record(NamedTuple):
    """A record of the state with the id `state`; `key` includes namespace and user key, but not the key group."""

    state: int
    key: bytes
    value: bytes


def prefix(key_group: int, max_parallelism: int) -> bytes:
    """Return the key-group prefix of a key (`CompositeKeySerializationUtils.writeKeyGroup`)."""
    return key_group.to_bytes(1 if max_parallelism <= 128 else 2, "big")


def write_group(key_group: int, records: Sequence[Record], max_parallelism: int) -> bytes:
    """Return a key group with records in the given order; no bytes if there are no records."""
    key_prefix = prefix(key_group, max_parallelism)
    return write_records([record._replace(key=key_prefix + record.key) for record in records])


def write_records(records: Sequence[Record]) -> bytes:
    """Return a key group as `FullSnapshotAsyncWriter` writes it, from records whose keys include its prefix."""
    if not records:
        return b""
    out = [struct.pack(">H", records[0].state)]
    following = [record.state for record in records[1:]] + [END_OF_GROUP]
    for (state, key, value), next_state in zip(records, following, strict=True):
        full_key = bytearray(key)
        full_key[0] |= FLAG if next_state != state else 0
        out.append(struct.pack(">i", len(full_key)) + full_key + struct.pack(">i", len(value)) + value)
        if next_state != state:
            out.append(struct.pack(">H", next_state))
    return b"".join(out)


def read_group(data: bytes, max_parallelism: int) -> list[tuple[int, Record]]:
    """Return (key group, record) for each record; the inverse of `write_group`."""
    size = len(prefix(0, max_parallelism))
    return [
        (int.from_bytes(record.key[:size], "big"), record._replace(key=record.key[size:]))
        for record in read_records(data)
    ]


def read_records(data: bytes) -> list[Record]:
    """Return the records, whose keys include the prefix; the inverse of `write_records`."""
    (state,), at, records = struct.unpack_from(">H", data), 2, []
    while state != END_OF_GROUP:
        (length,) = struct.unpack_from(">i", data, at)
        key = data[at + 4 : at + 4 + length]
        at += 4 + length
        (length,) = struct.unpack_from(">i", data, at)
        records.append(Record(state, bytes((key[0] & ~FLAG,)) + key[1:], data[at + 4 : at + 4 + length]))
        at += 4 + length
        if key[0] & FLAG:
            (state,) = struct.unpack_from(">H", data, at)
            at += 2
    assert at == len(data)
    return records

"""The framing of RocksDB's MANIFEST (`log::Reader`, `log::Writer`): records in blocks of 32 KiB, with checksums.

    crc:u32  length:u16  type:u8  payload[length]            little-endian

A record that does not fit into the rest of a block continues in the next block, as another fragment. If less than seven
bytes of a block are left, they are zeros. RocksDB silently drops a torn record at the end of the file, and with it part
of the state. `read_log` raises an error instead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

import google_crc32c

from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError

BLOCK_SIZE = 32768
_HEADER = struct.Struct("<IHB")
_MASK_DELTA = 0xA282EAD8


class _FragmentType(IntEnum):
    """The values of `log::RecordType` that occur in a MANIFEST."""

    PADDING = 0
    FULL = 1
    FIRST = 2
    MIDDLE = 3
    LAST = 4


_FRAGMENT_TYPES = {
    (True, True): _FragmentType.FULL,
    (True, False): _FragmentType.FIRST,
    (False, False): _FragmentType.MIDDLE,
    (False, True): _FragmentType.LAST,
}
"""Type of a fragment, by (is the first fragment of its record, is the last one)."""


class LogRecord(NamedTuple):
    """A record; `offset` is the offset of its first fragment in the file."""

    offset: int
    payload: bytes


def masked_crc32c(data: bytes) -> int:
    """Return the masked CRC-32C of `data` (`crc32c::Mask`): CRCs are masked because data may contain CRCs."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def read_log(data: bytes, path: str) -> Iterator[LogRecord]:
    """Yield the records of a log file; `path` names the file in errors.

    Raises `SnapshotError` for a damaged or torn record, and `UnsupportedError` for an unknown record type.
    """
    fragments: list[bytes] = []
    record_start = at = 0
    while at < len(data):
        bytes_left = min(BLOCK_SIZE - at % BLOCK_SIZE, len(data) - at)
        if bytes_left < _HEADER.size:
            if at % BLOCK_SIZE + bytes_left < BLOCK_SIZE:
                raise _torn_record_error(path, at)
            if any(data[at : at + bytes_left]):
                raise SnapshotError("the end of a block is not zeros", path=path, offset=at)
            at += bytes_left
            continue
        crc, length, fragment_type = _HEADER.unpack_from(data, at)
        if fragment_type == _FragmentType.PADDING and not length:
            if crc or any(data[at : at + bytes_left]):
                raise SnapshotError("the padding of a block is not zeros", path=path, offset=at)
            at += bytes_left
            continue
        if length > bytes_left - _HEADER.size:
            if at + _HEADER.size + length > len(data):
                raise _torn_record_error(path, at)
            raise SnapshotError("a record extends beyond its block", path=path, offset=at, found=f"{length} bytes")
        payload = data[at + _HEADER.size : at + _HEADER.size + length]
        if (computed_crc := masked_crc32c(data[at + 6 : at + _HEADER.size + length])) != crc:
            raise SnapshotError(
                "the checksum of a record is wrong",
                path=path,
                offset=at,
                expected=f"{crc:08x}",
                found=f"{computed_crc:08x}",
            )
        if fragment_type not in _FragmentType._value2member_map_ or fragment_type == _FragmentType.PADDING:
            raise UnsupportedError(
                "a record has a type that no MANIFEST has", path=path, offset=at, found=fragment_type
            )
        if (fragment_type in (_FragmentType.FULL, _FragmentType.FIRST)) == bool(fragments):
            raise _fragment_order_error(path, at, _FragmentType(fragment_type))
        if not fragments:
            record_start = at
        fragments.append(payload)
        at += _HEADER.size + length
        if fragment_type in (_FragmentType.FULL, _FragmentType.LAST):
            yield LogRecord(record_start, b"".join(fragments))
            fragments = []
    if fragments:
        raise _torn_record_error(path, record_start)


def write_log(payloads: Iterable[bytes]) -> bytes:
    """Return the bytes of a log file with these records."""
    out = bytearray()
    for payload in payloads:
        begin, is_first, is_last = 0, True, False
        while not is_last:
            bytes_left = BLOCK_SIZE - len(out) % BLOCK_SIZE
            if bytes_left < _HEADER.size:
                out += bytes(bytes_left)
                bytes_left = BLOCK_SIZE
            end = min(begin + bytes_left - _HEADER.size, len(payload))
            is_last = end == len(payload)
            fragment_type = _FRAGMENT_TYPES[is_first, is_last]
            crc = masked_crc32c(bytes((fragment_type,)) + payload[begin:end])
            out += _HEADER.pack(crc, end - begin, fragment_type) + payload[begin:end]
            begin, is_first = end, False
    return bytes(out)


def _torn_record_error(path: str, at: int) -> RescaleError:
    return SnapshotError(
        "the file ends inside a record",
        path=path,
        offset=at,
        advice="take another snapshot; RocksDB would open this one and lose the record's changes without an error",
    )


def _fragment_order_error(path: str, at: int, fragment_type: _FragmentType) -> RescaleError:
    return SnapshotError(
        "a fragment of a record is out of order", path=path, offset=at, found=fragment_type.name.lower()
    )

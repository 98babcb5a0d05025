"""A block of an SST file as it is stored, and what it holds (`BlockBasedTable`, `format.cc`).

    content  compression:u8  checksum:u32              little-endian

The checksum is over the content as it is stored and the byte behind it. Unless it is snappy's, which has its own, the
length of the content stands in front of what was compressed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import xxhash

from rescale.flink.advice import CANONICAL
from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.manifest.log_framing import masked_crc32c
from rescale.text.errors import SnapshotError, UnsupportedError

TRAILER_SIZE = 5
LARGEST_BLOCK = 64 * 1024 * 1024
"""Bytes that a block may have when it is unpacked, so that a damaged length costs no memory."""

_LAST_BYTE_FACTOR = 0x6B9083D9
_SNAPPY, _ZSTD = 1, 7
_LZ4 = (4, 5)


class BlockHandle(NamedTuple):
    """Where the content of a block lies in its file, without the trailer."""

    offset: int
    size: int


class ChecksumType(IntEnum):
    """RocksDB's `ChecksumType`: Flink 1 writes the first and Flink 2 the last, unless a job's options say another."""

    CRC32C = 1
    XXHASH = 2
    XXHASH64 = 3
    XXH3 = 4


class WrongChecksum(SnapshotError):  # noqa: N818
    """The checksum of a block is wrong, which RocksDB notices, too. Other processes see a plain `SnapshotError`."""

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "error": SnapshotError.__name__}


def read_handle(reader: EditReader) -> BlockHandle:
    """`BlockHandle::DecodeFrom`."""
    return BlockHandle(reader.varint(), reader.varint())


def unpacked(stored: bytes, kind: ChecksumType, path: str, offset: int) -> bytes:
    """The content of a block that lies at `offset` of the file, given with its trailer.

    `SnapshotError` for a damaged one, `UnsupportedError` for one that is not read.
    """
    check_block(stored, kind, path, offset)
    content, compression = stored[:-TRAILER_SIZE], stored[-TRAILER_SIZE]
    return _decompressed(content, compression, path, offset) if compression else content


def check_block(stored: bytes, kind: ChecksumType, path: str, offset: int) -> None:
    """`SnapshotError` unless the checksum of a block that lies at `offset` of the file is right.

    The block is given with its trailer.
    """
    expected, computed = int.from_bytes(stored[-4:], "little"), CHECKSUMS[kind](stored[:-4])
    if expected != computed:
        raise WrongChecksum(
            "the checksum of a block is wrong",
            path=path,
            offset=offset,
            expected=f"{expected:08x}",
            found=f"{computed:08x}",
            advice="take another snapshot",
        )


def _xxh3(data: bytes) -> int:
    """`ComputeBuiltinChecksum`: the last byte is not hashed but mixed in."""
    return (xxhash.xxh3_64_intdigest(data[:-1]) ^ data[-1] * _LAST_BYTE_FACTOR) & 0xFFFFFFFF


CHECKSUMS: dict[ChecksumType, Callable[[bytes], int]] = {
    ChecksumType.CRC32C: masked_crc32c,
    ChecksumType.XXHASH: lambda data: int(xxhash.xxh32_intdigest(data)),
    ChecksumType.XXHASH64: lambda data: xxhash.xxh64_intdigest(data) & 0xFFFFFFFF,
    ChecksumType.XXH3: _xxh3,
}


def _decompressed(content: bytes, compression: int, path: str, offset: int) -> bytes:
    import cramjam  # only those who look into compressed state need it

    reader = EditReader(content, path, offset)
    try:
        size = cramjam.snappy.decompress_raw_len(content) if compression == _SNAPPY else reader.varint32()
        packed = content[reader.position :]
        if size > LARGEST_BLOCK:
            raise UnsupportedError(
                "a block is larger than is read",
                path=path,
                offset=offset,
                expected=f"at most {LARGEST_BLOCK} bytes",
                found=f"{size} bytes",
                advice=CANONICAL,
            )
        plain: Any
        if compression == _SNAPPY:
            plain = cramjam.snappy.decompress_raw(packed)
        elif compression in _LZ4:
            plain = cramjam.lz4.decompress_block(packed, output_len=size)
        elif compression == _ZSTD:
            plain = bytearray(size)
            plain = plain[: cramjam.zstd.decompress_into(packed, plain)]
        else:
            raise reader.refusal("blocks compressed in a way that is not read", found=f"compression type {compression}")
    except (cramjam.DecompressionError, ValueError) as error:
        raise SnapshotError(f"a block does not decompress: {error}", path=path, offset=offset) from None
    if len(plain) != size:
        raise SnapshotError(
            "a block has not the length that it tells", path=path, offset=offset, expected=size, found=len(plain)
        )
    return bytes(plain)

"""Blocks of SST files: their checksums and compression (`BlockBasedTable`, `format.cc`).

    content  compression:u8  checksum:u32              little-endian

The checksum covers the stored content and the compression byte. Compressed content begins with its uncompressed length
as a varint; for snappy, the varint is part of snappy's own format.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import cramjam
import xxhash

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.manifest.log_framing import masked_crc32c
from rescale.text.errors import SnapshotError, UnsupportedError

TRAILER_SIZE = 5
LARGEST_BLOCK = 64 * 1024 * 1024
"""Largest size of an uncompressed block, in bytes: a damaged length must not make this process allocate more."""

_LAST_BYTE_FACTOR = 0x6B9083D9
_SNAPPY, _ZSTD = 1, 7
_LZ4 = (4, 5)


class BlockHandle(NamedTuple):
    """Offset and size of a block's content in its file, without the trailer."""

    offset: int
    size: int


class ChecksumType(IntEnum):
    """RocksDB's `ChecksumType`. Flink 1 writes `CRC32C` by default, and Flink 2 writes `XXH3`."""

    CRC32C = 1
    XXHASH = 2
    XXHASH64 = 3
    XXH3 = 4


class WrongChecksum(SnapshotError):  # noqa: N818
    """Error for a wrong checksum of a block, which RocksDB also detects. Pickling makes it a plain `SnapshotError`."""


def read_handle(reader: EditReader) -> BlockHandle:
    """Read a block handle (`BlockHandle::DecodeFrom`)."""
    return BlockHandle(reader.varint(), reader.varint())


def uncompressed_content(stored_block: bytes, kind: ChecksumType, path: str, offset: int) -> bytes:
    """Return the uncompressed content of a block; `stored_block` includes the trailer.

    `path` and `offset` are those of the block, for errors. Raises `SnapshotError` for a damaged block, and
    `UnsupportedError` for an unknown compression or more than `LARGEST_BLOCK` bytes.
    """
    check_block(stored_block, kind, path, offset)
    content, compression = stored_block[:-TRAILER_SIZE], stored_block[-TRAILER_SIZE]
    return _decompressed(content, compression, path, offset) if compression else content


def check_block(stored_block: bytes, kind: ChecksumType, path: str, offset: int) -> None:
    """Raise `WrongChecksum` if the checksum of a block is wrong; the arguments are those of `uncompressed_content`."""
    stored_checksum, computed_checksum = int.from_bytes(stored_block[-4:], "little"), CHECKSUMS[kind](stored_block[:-4])
    if stored_checksum != computed_checksum:
        raise WrongChecksum(
            "the checksum of a block is wrong",
            path=path,
            offset=offset,
            expected=f"{stored_checksum:08x}",
            found=f"{computed_checksum:08x}",
            advice="take another snapshot",
        )


def _xxh3(data: bytes) -> int:
    """Return the XXH3 checksum of a block, where the last byte is mixed in, not hashed (`ComputeBuiltinChecksum`)."""
    return (xxhash.xxh3_64_intdigest(data[:-1]) ^ data[-1] * _LAST_BYTE_FACTOR) & 0xFFFFFFFF


CHECKSUMS: dict[ChecksumType, Callable[[bytes], int]] = {
    ChecksumType.CRC32C: masked_crc32c,
    ChecksumType.XXHASH: lambda data: int(xxhash.xxh32_intdigest(data)),
    ChecksumType.XXHASH64: lambda data: xxhash.xxh64_intdigest(data) & 0xFFFFFFFF,
    ChecksumType.XXH3: _xxh3,
}


def _decompressed(content: bytes, compression: int, path: str, offset: int) -> bytes:
    reader = EditReader(content, path, offset)
    try:
        size = cramjam.snappy.decompress_raw_len(content) if compression == _SNAPPY else reader.varint32()
        compressed_content = content[reader.position :]
        if size > LARGEST_BLOCK:
            raise UnsupportedError(
                "a block of an SST file is too large",
                path=path,
                offset=offset,
                expected=f"at most {LARGEST_BLOCK} bytes",
                found=f"{size} bytes",
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
        decompressed: Any
        if compression == _SNAPPY:
            decompressed = cramjam.snappy.decompress_raw(compressed_content)
        elif compression in _LZ4:
            decompressed = cramjam.lz4.decompress_block(compressed_content, output_len=size)
        elif compression == _ZSTD:
            decompressed = bytearray(size)
            decompressed = decompressed[: cramjam.zstd.decompress_into(compressed_content, decompressed)]
        else:
            raise reader.refusal("blocks with an unsupported compression", found=f"compression type {compression}")
    except (cramjam.DecompressionError, ValueError) as error:
        raise SnapshotError(f"a block cannot be decompressed: {error}", path=path, offset=offset) from None
    if len(decompressed) != size:
        raise SnapshotError(
            "a decompressed block does not have the length that is stored with it",
            path=path,
            offset=offset,
            expected=f"{size} bytes",
            found=f"{len(decompressed)} bytes",
        )
    return bytes(decompressed)

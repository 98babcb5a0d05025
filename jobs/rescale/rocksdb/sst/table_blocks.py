"""Blocks of SST files: their checksums and compression (`BlockBasedTable`, `format.cc`).

    content  compression:u8  checksum:u32              little-endian

The checksum covers the stored content and the compression byte. Compressed content begins with its uncompressed length
as a varint; for snappy, the varint is part of snappy's own format.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import cramjam
import numpy as np
import xxhash

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD_SIZE
from rescale.rocksdb.manifest.edit_reader import EditReader, leading_varint
from rescale.rocksdb.manifest.log_framing import masked_crc32c
from rescale.text.errors import SnapshotError, UnsupportedError

TRAILER_SIZE = 5
LARGEST_BLOCK_BYTES = LARGEST_RECORD_SIZE + 64 * 1024 * 1024
"""Largest size of an uncompressed block, in bytes: a damaged length must not make this process allocate more.

A block may end with a row of any size, after smaller rows up to RocksDB's block size.
"""

_LAST_BYTE_FACTOR = 0x6B9083D9
_SNAPPY, _ZLIB, _BZIP2, _ZSTD = 1, 2, 3, 7
_LZ4_TYPES = (4, 5)
_COMPRESSIONS = frozenset((_SNAPPY, _ZLIB, _BZIP2, *_LZ4_TYPES, _ZSTD))
_LARGEST_WINDOW = -15
"""Largest window of zlib, as the logarithm of its size; negative for content without zlib's own header."""

Buffer = bytes | memoryview


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


class DataBlocks(NamedTuple):
    """Uncompressed contents of data blocks; the content of block i is `data[starts[i]:ends[i]]`."""

    data: Bytes
    starts: Longs
    ends: Longs


def uncompressed_blocks(
    stored: bytes, starts: Longs, ends: Longs, checksum_type: ChecksumType, path: str, offset: int
) -> DataBlocks:
    """Return the uncompressed contents of stored blocks.

    Block i has the content `stored[starts[i]:ends[i]]`, then its trailer. `stored` lies in the file `path` from
    `offset` on. Raises the errors of `uncompressed_content`.
    """
    check_blocks(stored, starts, ends + TRAILER_SIZE, checksum_type, path, offset)
    data = np.frombuffer(bytearray(stored), np.uint8)
    if not data[ends].any():
        return DataBlocks(data, starts, ends)
    block_contents = [
        _decompressed(stored, start, end, path, offset + start) if stored[end] else stored[start:end]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    content_ends = np.cumsum([len(content) for content in block_contents], dtype=np.int64)
    content_starts = np.append(np.int64(0), content_ends[:-1])
    return DataBlocks(np.frombuffer(bytearray().join(block_contents), np.uint8), content_starts, content_ends)


def uncompressed_content(stored_block: bytes, checksum_type: ChecksumType, path: str, offset: int) -> bytes:
    """Return the uncompressed content of a block; `stored_block` includes the trailer.

    `path` and `offset` are those of the block, for errors. Raises `SnapshotError` for a damaged block, and
    `UnsupportedError` for an unknown compression or more than `LARGEST_BLOCK_BYTES` bytes.
    """
    check_block(stored_block, checksum_type, path, offset)
    end = len(stored_block) - TRAILER_SIZE
    return bytes(_decompressed(stored_block, 0, end, path, offset)) if stored_block[end] else stored_block[:end]


def check_block(stored_block: bytes, checksum_type: ChecksumType, path: str, offset: int) -> None:
    """Raise `WrongChecksum` if the checksum of a block is wrong; the arguments are those of `uncompressed_content`."""
    stored_checksum, computed_checksum = (
        int.from_bytes(stored_block[-4:], "little"),
        CHECKSUM_FUNCTIONS[checksum_type](stored_block[:-4]),
    )
    if stored_checksum != computed_checksum:
        raise WrongChecksum(
            "the checksum of a block is wrong",
            path=path,
            offset=offset,
            expected=f"{stored_checksum:08x}",
            found=f"{computed_checksum:08x}",
            advice="take another snapshot",
        )


def check_blocks(
    stored: bytes, starts: Longs, ends: Longs, checksum_type: ChecksumType, path: str, offset: int
) -> None:
    """Raise `WrongChecksum` for the first block whose checksum is wrong.

    Block i with its trailer is `stored[starts[i]:ends[i]]`; `stored` lies in the file `path` from `offset` on.
    """
    checksum_of, stored_view = CHECKSUM_FUNCTIONS[checksum_type], memoryview(stored)
    content_ends = ends - 4
    expected_checksums = [
        checksum_of(stored_view[start:end]) for start, end in zip(starts.tolist(), content_ends.tolist(), strict=True)
    ]
    stored_bytes = np.frombuffer(stored, np.uint8)[content_ends[:, None] + np.arange(4)]
    wrong_indices = np.flatnonzero(stored_bytes.view("<u4")[:, 0] != np.array(expected_checksums, np.uint32))
    if len(wrong_indices):
        start = int(starts[wrong_indices[0]])
        check_block(stored[start : int(ends[wrong_indices[0]])], checksum_type, path, offset + start)


def _xxh3(data: Buffer) -> int:
    """Return the XXH3 checksum of a block, where the last byte is mixed in, not hashed (`ComputeBuiltinChecksum`)."""
    return (xxhash.xxh3_64_intdigest(data[:-1]) ^ data[-1] * _LAST_BYTE_FACTOR) & 0xFFFFFFFF


CHECKSUM_FUNCTIONS: dict[ChecksumType, Callable[[Buffer], int]] = {
    ChecksumType.CRC32C: lambda data: masked_crc32c(bytes(data)),
    ChecksumType.XXHASH: lambda data: int(xxhash.xxh32_intdigest(data)),
    ChecksumType.XXHASH64: lambda data: xxhash.xxh64_intdigest(data) & 0xFFFFFFFF,
    ChecksumType.XXH3: _xxh3,
}


def _decompressed(stored: bytes, start: int, end: int, path: str, offset: int) -> Any:
    """Return the uncompressed content of a block as a bytes-like object.

    The compressed content is `stored[start:end]`, and `stored[end]` is the type of its compression. `offset` is the
    offset of the block in the file `path`.
    """
    content: Any
    compression_type = stored[end]
    if compression_type not in _COMPRESSIONS:
        raise EditReader(stored, path, offset).refusal(
            "blocks with an unsupported compression", found=f"compression type {compression_type}"
        )
    size, varint_size = leading_varint(stored[start : start + 5])
    if not 0 < varint_size <= end - start:
        raise SnapshotError("the length of a compressed block is damaged", path=path, offset=offset)
    if size > LARGEST_BLOCK_BYTES:
        raise UnsupportedError(
            "a block of an SST file is too large",
            path=path,
            offset=offset,
            expected=f"at most {LARGEST_BLOCK_BYTES} bytes",
            found=f"{size} bytes",
            advice=RESCALE_CANONICAL_SAVEPOINT,
        )
    try:
        if compression_type == _SNAPPY:
            content = cramjam.snappy.decompress_raw(stored[start:end])
            content_size = len(content)
        elif compression_type in (_ZLIB, _BZIP2):
            decompressor = zlib.decompressobj(_LARGEST_WINDOW) if compression_type == _ZLIB else bz2.BZ2Decompressor()
            content = decompressor.decompress(stored[start + varint_size : end], size + 1)
            content_size = len(content)
        else:
            content = bytearray(size)
            decompress_into = (
                cramjam.lz4.decompress_block_into if compression_type in _LZ4_TYPES else cramjam.zstd.decompress_into
            )
            content_size = decompress_into(stored[start + varint_size : end], content)
    except (cramjam.DecompressionError, zlib.error, OSError, ValueError) as error:
        raise SnapshotError(f"a block cannot be decompressed: {error}", path=path, offset=offset) from None
    if content_size != size:
        raise SnapshotError(
            "a decompressed block does not have the length that is stored with it",
            path=path,
            offset=offset,
            expected=f"{size} bytes",
            found=f"{content_size} bytes",
        )
    return content

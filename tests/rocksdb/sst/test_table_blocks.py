"""Stored blocks: one by one and several together, whole and damaged."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Sequence

import cramjam
import numpy as np
import pytest

from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.sst.table_blocks import (
    CHECKSUM_FUNCTIONS,
    LARGEST_BLOCK_BYTES,
    TRAILER_SIZE,
    ChecksumType,
    WrongChecksum,
    uncompressed_blocks,
    uncompressed_content,
)
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError

NO_COMPRESSION, SNAPPY, ZLIB, BZIP2, LZ4, ZSTD = 0, 1, 2, 3, 4, 7
CONTENT = b"some content, " * 20
STORED_BY_COMPRESSION = {
    NO_COMPRESSION: CONTENT,
    SNAPPY: bytes(cramjam.snappy.compress_raw(CONTENT)),
    ZLIB: varint(len(CONTENT)) + zlib.compress(CONTENT, wbits=-14),
    BZIP2: varint(len(CONTENT)) + bz2.compress(CONTENT),
    LZ4: varint(len(CONTENT)) + bytes(cramjam.lz4.compress_block(CONTENT, store_size=False)),
    ZSTD: varint(len(CONTENT)) + bytes(cramjam.zstd.compress(CONTENT)),
}
OFFSET = 1000


@pytest.mark.parametrize("checksum_type", ChecksumType)
@pytest.mark.parametrize("compressions", [[NO_COMPRESSION] * 3, [SNAPPY, NO_COMPRESSION, ZLIB, BZIP2, LZ4, ZSTD]])
def test_blocks_are_uncompressed_together_as_one_by_one(
    checksum_type: ChecksumType, compressions: Sequence[int]
) -> None:
    stored_blocks = [
        stored_block(STORED_BY_COMPRESSION[compression], compression, checksum_type) for compression in compressions
    ]
    assert [uncompressed_content(block, checksum_type, "table", 0) for block in stored_blocks] == [CONTENT] * len(
        stored_blocks
    )
    assert contents_of(stored_blocks, checksum_type) == [CONTENT] * len(stored_blocks)


@pytest.mark.parametrize("checksum_type", ChecksumType)
def test_first_wrong_checksum_is_refused_with_its_offset(checksum_type: ChecksumType) -> None:
    whole_block = stored_block(CONTENT, NO_COMPRESSION, checksum_type)
    for at in (0, len(CONTENT) - 1, len(CONTENT), len(whole_block) - 1):
        damaged_block = whole_block[:at] + bytes((whole_block[at] ^ 4,)) + whole_block[at + 1 :]
        with pytest.raises(WrongChecksum) as caught:
            contents_of([whole_block, damaged_block, damaged_block], checksum_type)
        assert (caught.value.path, caught.value.offset) == ("table", OFFSET + len(whole_block))


@pytest.mark.parametrize(
    ("compression", "stored_content", "error", "what"),
    [
        (6, CONTENT, UnsupportedError, "unsupported compression"),
        (LZ4, b"", SnapshotError, "length of a compressed block"),
        (SNAPPY, b"\xff", SnapshotError, "length of a compressed block"),
        (ZSTD, b"\xff" * 5 + b"\1", SnapshotError, "length of a compressed block"),
        *(
            (kind, varint(LARGEST_BLOCK_BYTES + 1) + STORED_BY_COMPRESSION[kind], UnsupportedError, "too large")
            for kind in (SNAPPY, ZLIB, BZIP2, LZ4, ZSTD)
        ),
        (ZLIB, varint(len(CONTENT) + 1) + STORED_BY_COMPRESSION[ZLIB][2:], SnapshotError, "does not have the length"),
        (
            BZIP2,
            varint(len(CONTENT) - 1) + STORED_BY_COMPRESSION[BZIP2][2:],
            SnapshotError,
            "does not have the length",
        ),
        (ZLIB, varint(len(CONTENT)) + b"\xff" * 9, SnapshotError, "cannot be decompressed"),
        (BZIP2, varint(len(CONTENT)) + b"\xff" * 9, SnapshotError, "cannot be decompressed"),
        (LZ4, varint(len(CONTENT) + 1) + STORED_BY_COMPRESSION[LZ4][2:], SnapshotError, "does not have the length"),
        (ZSTD, varint(len(CONTENT) + 1) + STORED_BY_COMPRESSION[ZSTD][2:], SnapshotError, "does not have the length"),
        *(
            (kind, STORED_BY_COMPRESSION[kind][:-3], SnapshotError, "cannot be decompressed")
            for kind in (SNAPPY, LZ4, ZSTD)
        ),
    ],
)
def test_damaged_compressed_block_is_refused(
    compression: int, stored_content: bytes, error: type[RescaleError], what: str
) -> None:
    whole_block = stored_block(CONTENT, NO_COMPRESSION, ChecksumType.XXH3)
    damaged_block = stored_block(stored_content, compression, ChecksumType.XXH3)
    with pytest.raises(error, match=what) as caught:
        contents_of([whole_block, damaged_block], ChecksumType.XXH3)
    assert (caught.value.path, caught.value.offset) == ("table", OFFSET + len(whole_block))
    with pytest.raises(error, match=what):
        uncompressed_content(damaged_block, ChecksumType.XXH3, "table", 0)


def stored_block(content: bytes, compression: int, checksum_type: ChecksumType) -> bytes:
    block = content + bytes((compression,))
    return block + CHECKSUM_FUNCTIONS[checksum_type](block).to_bytes(4, "little")


def contents_of(stored_blocks: Sequence[bytes], checksum_type: ChecksumType) -> list[bytes]:
    """Return the contents of blocks that lie end to end at offset `OFFSET` of a file, read together."""
    ends = np.cumsum([len(block) for block in stored_blocks])
    starts = np.append(0, ends[:-1])
    blocks = uncompressed_blocks(b"".join(stored_blocks), starts, ends - TRAILER_SIZE, checksum_type, "table", OFFSET)
    return [blocks.data[start:end].tobytes() for start, end in zip(blocks.starts, blocks.ends, strict=True)]

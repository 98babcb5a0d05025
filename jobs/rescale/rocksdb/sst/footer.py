"""The footer of an SST file (`Footer`), which is read first.

    checksum type:u8  handle of the metaindex  handle of the index  padding to 41 bytes  version:u32  magic:u64

All supported Flink releases write version 5. Versions 0 and 1 compress blocks in another way, and versions from 6 on
have another footer.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, BlockHandle, ChecksumType, read_handle
from rescale.text.errors import SnapshotError, UnsupportedError

FOOTER_SIZE = 53
MAGIC = 0x88E241B785F4CFF7
"""`kBlockBasedTableMagicNumber`."""

_VERSIONS = range(2, 6)


@dataclass(frozen=True)
class Footer:
    """Checksum type of the blocks, and handles of the metaindex block and the index block."""

    checksum_type: ChecksumType
    metaindex_handle: BlockHandle
    index_handle: BlockHandle


def read_footer(data: bytes, size: int, path: str, start: int) -> Footer:
    """Return the footer of an SST file of `size` bytes; `data` are the last bytes of the SST file.

    The SST file lies in the file `path` from offset `start` on; `path` and `start` are for errors. Raises
    `SnapshotError` if the bytes are no SST file, and `UnsupportedError` for an unsupported format version or checksum
    type.
    """
    footer_offset = start + size - FOOTER_SIZE
    if size < FOOTER_SIZE or int.from_bytes(data[-8:], "little") != MAGIC:
        raise SnapshotError(
            "not an SST file",
            path=path,
            offset=max(footer_offset, start),
            found=data[-8:].hex(),
            advice="take another snapshot",
        )
    version, checksum_type = int.from_bytes(data[-12:-8], "little"), data[-FOOTER_SIZE]
    if version not in _VERSIONS or checksum_type not in ChecksumType._value2member_map_:
        raise UnsupportedError(
            "an SST file has an unsupported format",
            path=path,
            expected=f"version {_VERSIONS[0]} to {_VERSIONS[-1]}, with crc32c, xxh3 or another xxHash",
            found=f"version {version}, checksum type {checksum_type}",
            advice=RESCALE_CANONICAL_SAVEPOINT,
        )
    metaindex_handle, index_handle = _handles(data, size, path, start)
    return Footer(ChecksumType(checksum_type), metaindex_handle, index_handle)


def check_blocks_of_footer(data: bytes, size: int, path: str, start: int) -> None:
    """Raise `SnapshotError` if the footer names blocks outside of the file.

    A footer of the supported versions has no checksum. With a damaged footer, RocksDB would allocate as much memory as
    the footer says, or crash. RocksDB itself detects a wrong magic number, and damage in footers with a checksum.
    Arguments are those of `read_footer`.
    """
    version = int.from_bytes(data[-12:-8], "little")
    if size >= FOOTER_SIZE and int.from_bytes(data[-8:], "little") == MAGIC and version in _VERSIONS:
        _handles(data, size, path, start)


def _handles(data: bytes, size: int, path: str, start: int) -> tuple[BlockHandle, BlockHandle]:
    reader = EditReader(data[-FOOTER_SIZE + 1 : -12], path, start + size - FOOTER_SIZE + 1)
    metaindex_handle, index_handle = read_handle(reader), read_handle(reader)
    for handle in (metaindex_handle, index_handle):
        check_handle(handle, size, path)
    return metaindex_handle, index_handle


def check_handle(handle: BlockHandle, size: int, path: str) -> None:
    """Raise `SnapshotError` if a block does not lie within an SST file of `size` bytes."""
    if handle.offset + handle.size + TRAILER_SIZE > size - FOOTER_SIZE:
        raise SnapshotError(
            "a block lies outside of its file",
            path=path,
            expected=f"before byte {size - FOOTER_SIZE}",
            found=f"{handle.size} bytes at {handle.offset}",
            advice="take another snapshot",
        )

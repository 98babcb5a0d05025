"""Writers of the blocks, block handles and footer of an SST file, which `footer` and `table_*` read."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.manifest.edit_writer import EditWriter
from rescale.rocksdb.manifest.log_framing import masked_crc32c
from rescale.rocksdb.sst.footer import FOOTER_SIZE, MAGIC
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, BlockHandle, ChecksumType

_UNCOMPRESSED = b"\0"
FORMAT_VERSION = 5


def write_entries(entries: Iterable[tuple[bytes, bytes]], *, stores_whole_keys: bool = False) -> bytes:
    """Return the content of a block with these (key, value) entries, in the order of their keys (`BlockBuilder`).

    Each key is stored without the prefix that it shares with the previous key, unless `stores_whole_keys` is set.
    """
    writer, previous_key = EditWriter(), b""
    restarts: list[int] = []
    for key, value in entries:
        if stores_whole_keys or not restarts:
            restarts.append(writer.size)
            previous_key = b""
        shared_size = _common_prefix_size(previous_key, key)
        for number in (shared_size, len(key) - shared_size, len(value)):
            writer.varint(number)
        writer.raw(key[shared_size:]).raw(value)
        previous_key = key
    for number in (*(restarts or [0]), max(len(restarts), 1)):
        writer.raw(number.to_bytes(4, "little"))
    return writer.bytes()


def _common_prefix_size(first: bytes, second: bytes) -> int:
    shortest = min(len(first), len(second))
    return next((i for i in range(shortest) if first[i] != second[i]), shortest)


def write_handle(handle: BlockHandle) -> bytes:
    """Return the bytes of a block handle (`BlockHandle::EncodeTo`)."""
    return EditWriter().varint(handle.offset).varint(handle.size).bytes()


class BlockFile:
    """Builder of the part of an SST file from offset `start` on, block by block."""

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self._data = bytearray()

    def add(self, content: bytes) -> BlockHandle:
        """Add a block with this content, uncompressed, and return its handle."""
        checksum = masked_crc32c(content + _UNCOMPRESSED)
        return self.add_sealed(content + _UNCOMPRESSED + checksum.to_bytes(4, "little"))

    def add_sealed(self, sealed_block: bytes) -> BlockHandle:
        """Add a block that already has its trailer, and return its handle."""
        handle = BlockHandle(self._start + len(self._data), len(sealed_block) - TRAILER_SIZE)
        self._data += sealed_block
        return handle

    def finish(self, metaindex_handle: BlockHandle, index_handle: BlockHandle) -> bytes:
        """Return all bytes of the file from `start` on, with the footer."""
        encoded_handles = write_handle(metaindex_handle) + write_handle(index_handle)
        footer = bytes((ChecksumType.CRC32C,)) + encoded_handles.ljust(FOOTER_SIZE - 13, b"\0")
        return bytes(self._data) + footer + FORMAT_VERSION.to_bytes(4, "little") + MAGIC.to_bytes(8, "little")

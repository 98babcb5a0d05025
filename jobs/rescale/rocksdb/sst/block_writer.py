"""The mirror of `table_blocks`, `table_entries` and `footer`: what SST files are made of, but for their rows."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.manifest.edit_writer import EditWriter
from rescale.rocksdb.manifest.log_framing import masked_crc32c
from rescale.rocksdb.sst.footer import FOOTER_SIZE, MAGIC
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, BlockHandle, ChecksumType

_UNCOMPRESSED = b"\0"
FORMAT_VERSION = 5


def write_entries(entries: Iterable[tuple[bytes, bytes]], *, whole_keys: bool = False) -> bytes:
    """The content of a block: keys without what they have in common with the one before, or all of them whole."""
    writer, before = EditWriter(), b""
    restarts: list[int] = []
    for key, value in entries:
        if whole_keys or not restarts:
            restarts.append(writer.size)
            before = b""
        shared = _in_common(before, key)
        for number in (shared, len(key) - shared, len(value)):
            writer.varint(number)
        writer.raw(key[shared:])
        writer.raw(value)
        before = key
    for number in (*(restarts or [0]), max(len(restarts), 1)):
        writer.raw(number.to_bytes(4, "little"))
    return writer.bytes()


def _in_common(first: bytes, second: bytes) -> int:
    """Return the length of the common prefix."""
    shortest = min(len(first), len(second))
    return next((i for i in range(shortest) if first[i] != second[i]), shortest)


def write_handle(handle: BlockHandle) -> bytes:
    """`BlockHandle::EncodeTo`."""
    writer = EditWriter()
    writer.varint(handle.offset)
    writer.varint(handle.size)
    return writer.bytes()


class BlockFile:
    """An SST file that grows block by block, from `start` on."""

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self._data = bytearray()

    def add(self, content: bytes) -> BlockHandle:
        checksum = masked_crc32c(content + _UNCOMPRESSED)
        return self.add_sealed(content + _UNCOMPRESSED + checksum.to_bytes(4, "little"))

    def add_sealed(self, stored: bytes) -> BlockHandle:
        """A block with its trailer, as it is."""
        handle = BlockHandle(self._start + len(self._data), len(stored) - TRAILER_SIZE)
        self._data += stored
        return handle

    def finish(self, metaindex: BlockHandle, index: BlockHandle) -> bytes:
        """The file from its start on, with its footer."""
        handles = write_handle(metaindex) + write_handle(index)
        footer = bytes((ChecksumType.CRC32C,)) + handles.ljust(FOOTER_SIZE - 13, b"\0")
        return bytes(self._data) + footer + FORMAT_VERSION.to_bytes(4, "little") + MAGIC.to_bytes(8, "little")

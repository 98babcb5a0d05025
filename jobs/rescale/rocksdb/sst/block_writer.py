"""The mirror of `table_blocks`, `table_entries` and `footer`: what a small uncompressed SST file is made of."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.manifest.edit_writer import EditWriter
from rescale.rocksdb.manifest.log_framing import masked_crc32c
from rescale.rocksdb.sst.footer import FOOTER_SIZE, MAGIC
from rescale.rocksdb.sst.table_blocks import BlockHandle, ChecksumType

_UNCOMPRESSED = b"\0"
_VERSION = 5


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


def _in_common(one: bytes, other: bytes) -> int:
    """Bytes that both begin with."""
    shortest = min(len(one), len(other))
    return next((i for i in range(shortest) if one[i] != other[i]), shortest)


def write_handle(handle: BlockHandle) -> bytes:
    """`BlockHandle::EncodeTo`."""
    writer = EditWriter()
    writer.varint(handle.offset)
    writer.varint(handle.size)
    return writer.bytes()


class BlockFile:
    """An SST file that grows block by block."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, content: bytes) -> BlockHandle:
        handle = BlockHandle(len(self._data), len(content))
        self._data += content + _UNCOMPRESSED
        self._data += masked_crc32c(content + _UNCOMPRESSED).to_bytes(4, "little")
        return handle

    def finish(self, metaindex: BlockHandle, index: BlockHandle) -> bytes:
        """The whole file, with its footer."""
        handles = write_handle(metaindex) + write_handle(index)
        footer = bytes((ChecksumType.CRC32C,)) + handles.ljust(FOOTER_SIZE - 13, b"\0")
        return bytes(self._data) + footer + _VERSION.to_bytes(4, "little") + MAGIC.to_bytes(8, "little")

"""Writer of the primitive values in RocksDB's files, which `edit_reader` reads."""

from __future__ import annotations

from typing import Self

from rescale.rocksdb.manifest.edit_reader import KEY_TRAILER_SIZE, InternalKey


class EditWriter:
    """Buffer to which encoded values are appended; each method that writes returns the writer."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def size(self) -> int:
        return len(self._data)

    def varint(self, value: int) -> Self:
        while value > 0x7F:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)
        return self

    def raw(self, value: bytes) -> Self:
        self._data += value
        return self

    def slice(self, value: bytes) -> Self:
        return self.varint(len(value)).raw(value)

    def internal_key(self, key: InternalKey) -> Self:
        return self.slice(internal_key(key))

    def bytes(self) -> bytes:
        return bytes(self._data)


def internal_key(key: InternalKey) -> bytes:
    """Return the bytes of an internal key (`AppendInternalKey`)."""
    return key.user_key + (key.sequence << 8 | key.kind).to_bytes(KEY_TRAILER_SIZE, "little")


def varint(value: int) -> bytes:
    return EditWriter().varint(value).bytes()

"""Writer of the primitive values in RocksDB's files, which `edit_reader` reads."""

from __future__ import annotations

from rescale.rocksdb.manifest.edit_reader import KEY_TRAILER_SIZE, InternalKey


class EditWriter:
    """Buffer to which encoded values are appended."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def size(self) -> int:
        return len(self._data)

    def varint(self, value: int) -> None:
        while value > 0x7F:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)

    def raw(self, value: bytes) -> None:
        self._data += value

    def slice(self, value: bytes) -> None:
        self.varint(len(value))
        self._data += value

    def internal_key(self, key: InternalKey) -> None:
        self.slice(internal_key(key))

    def bytes(self) -> bytes:
        return bytes(self._data)


def internal_key(key: InternalKey) -> bytes:
    """Return the bytes of an internal key (`AppendInternalKey`)."""
    return key.user_key + (key.sequence << 8 | key.kind).to_bytes(KEY_TRAILER_SIZE, "little")


def varint(value: int) -> bytes:
    """Return the bytes of a varint."""
    writer = EditWriter()
    writer.varint(value)
    return writer.bytes()

"""Reader of the primitive values in RocksDB's files (`util/coding.h`): varints, slices, internal keys."""

from __future__ import annotations

from typing import NamedTuple

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.encoding.binary import ByteReader
from rescale.text.errors import SnapshotError, UnsupportedError

KEY_TRAILER_SIZE = 8
"""Bytes of the trailer of an internal key: `sequence << 8 | type`, little-endian."""


class InternalKey(NamedTuple):
    """RocksDB's internal key: user key, sequence number, and `kind`, which is RocksDB's `ValueType`."""

    user_key: bytes
    sequence: int
    kind: int

    @property
    def order(self) -> tuple[bytes, int]:
        """Sort key of `InternalKeyComparator`: by user key, and the newest entry of a user key first."""
        return self.user_key, -(self.sequence << 8 | self.kind)


def leading_varint(data: bytes) -> tuple[int, int]:
    """Return the varint at the beginning of `data` and its size in bytes; (-1, 0) if it does not end in `data`."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, shift // 7
    return -1, 0


class EditReader(ByteReader):
    """Cursor over one record of a MANIFEST; `origin` is the record's offset in the file."""

    def __init__(self, data: bytes, path: str, origin: int) -> None:
        super().__init__(data, path)
        self._origin = origin

    def error(
        self, what: str, *, at: int | None = None, expected: object = None, found: object = None
    ) -> SnapshotError:
        offset = self._origin + (self.position if at is None else at)
        return super().error(what, at=offset, expected=expected, found=found)

    def refusal(self, what: str, *, found: object = None) -> UnsupportedError:
        """Return the error for a valid database with the feature `what`, which Flink's databases do not have."""
        return UnsupportedError(
            f"the database has {what}",
            path=self.path,
            offset=self._origin + self.position,
            found=found,
            advice=RESCALE_CANONICAL_SAVEPOINT,
        )

    def varint(self, bits: int = 64) -> int:
        """Read a varint of at most `bits` bits: seven bits in each byte, the lowest bits first."""
        at, most_bytes = self.position, -(-bits // 7)
        if at < self.end and (byte := self.data[at]) < 0x80:  # fast path for one byte, the most frequent case
            self.position = at + 1
            return byte
        value, size = leading_varint(self.data[at : min(at + most_bytes, self.end)])
        if size and value < 1 << bits:
            self.position = at + size
            return value
        if self.remaining < most_bytes:
            self.raw(self.remaining + 1)
        raise self.error(f"a varint has more than {bits} bits", at=at)

    def varint32(self) -> int:
        return self.varint(32)

    def slice(self) -> bytes:
        """Read bytes with their length before them (`GetLengthPrefixedSlice`)."""
        return self.raw(self.varint32())

    def name(self) -> str:
        at, data = self.position, self.slice()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.error("a name is not UTF-8", at=at, found=data) from None

    def internal_key(self) -> InternalKey:
        at, data = self.position, self.slice()
        if len(data) < KEY_TRAILER_SIZE:
            raise self.error("a key has no sequence number", at=at, found=data.hex())
        trailer = int.from_bytes(data[-KEY_TRAILER_SIZE:], "little")
        return InternalKey(data[:-KEY_TRAILER_SIZE], trailer >> 8, trailer & 0xFF)

"""Reader and writer of Java's `DataOutput`: big-endian, two's complement, lengths in front.

The reader checks every length against the remaining bytes before it reads them, so a damaged length raises an error
with its offset and allocates no memory.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Self

from rescale.text.errors import SnapshotError

_I16, _U16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">H"), struct.Struct(">i"), struct.Struct(">q")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class ByteReader:
    """A cursor over `data`: `path` names the data in errors, `position` and `end` are offsets in it.

    All methods that read raise `SnapshotError`, with the offset, if the data ends too early.
    """

    def __init__(self, data: bytes, path: str = "", position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.path = path
        self.position = position
        self.end = len(data) if end is None else end

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def error(
        self, what: str, *, at: int | None = None, expected: object = None, found: object = None
    ) -> SnapshotError:
        """Return an error with the offset of the cursor, or with the offset `at` of a value that was read already."""
        offset = self.position if at is None else at
        return SnapshotError(what, path=self.path, offset=offset, expected=expected, found=found)

    def _advance(self, size: int) -> int:
        start = self.position
        if size < 0 or size > self.end - start:
            raise self.error("the data ends too early", expected=f"{size} more bytes", found=self.remaining)
        self.position = start + size
        return start

    def u8(self) -> int:
        return self.data[self._advance(1)]

    def boolean(self) -> bool:
        return self.u8() != 0

    def i16(self) -> int:
        return int(_I16.unpack_from(self.data, self._advance(2))[0])

    def u16(self) -> int:
        return int(_U16.unpack_from(self.data, self._advance(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack_from(self.data, self._advance(4))[0])

    def i64(self) -> int:
        return int(_I64.unpack_from(self.data, self._advance(8))[0])

    def i64s(self, count: int) -> tuple[int, ...]:
        start = self._advance(8 * count)
        return struct.unpack_from(f">{count}q", self.data, start)

    def raw(self, size: int) -> bytes:
        start = self._advance(size)
        return self.data[start : start + size]

    def blob(self) -> bytes:
        """Read an `i32` length and that many bytes."""
        return self.raw(self.i32())

    def utf(self) -> str:
        """Read a string of `DataInput.readUTF`: `u16` length and *modified* UTF-8.

        Flink uses this format for names, and Java object streams use it for short strings. A string with an unpaired
        surrogate raises `SnapshotError`: Java accepts it, but plans and reports are UTF-8, which cannot encode it.
        """
        at = self.position
        encoded = self.raw(self.u16())
        try:
            text = decode_modified_utf8(encoded)
        except UnicodeError as error:
            raise self.error(f"not a string in modified UTF-8 ({error})", at=at) from None
        if not text.isascii() and (unpaired_surrogate := _SURROGATE.search(text)) is not None:
            raise self.error(
                "a name with an unpaired surrogate", at=at, found=text[max(0, unpaired_surrogate.start() - 40) :]
            )
        return text

    def text(self) -> str:
        """Read a string of `StringValue.readString`: the number of UTF-16 units plus one, then the units, all `packed`.

        The number 0 stands for null, which is returned as "".
        """
        at = self.position
        return self.utf16(max(0, self.packed() - 1), at)

    def utf16(self, unit_count: int, at: int) -> str:
        """Read `unit_count` UTF-16 units, all `packed`. Errors about the count name `at`, the position of the count."""
        if unit_count > self.remaining:
            raise self.error("an impossible length", at=at, expected=f"at most {self.remaining}", found=unit_count)
        utf16_bytes = b"".join((self.packed() & 0xFFFF).to_bytes(2, "big") for _ in range(unit_count))
        return utf16_bytes.decode("utf-16-be", "surrogatepass")

    def packed(self) -> int:
        """Read a variable-length number: seven bits in each byte, whose high bit says that another byte follows.

        Raises `SnapshotError` for more than five bytes.
        """
        number, at = 0, self.position
        for shift in range(0, 35, 7):
            byte = self.u8()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise self.error("a packed number of more than five bytes", at=at)

    def non_negative(self, read: Callable[[], int], what: str) -> int:
        """Return the number that `read`, a method of this reader, reads. Raises `SnapshotError` if it is negative."""
        at, number = self.position, read()
        if number < 0:
            raise self.error(f"a negative {what}", at=at, expected="0 or more", found=number)
        return number

    def count(self, item_size: int) -> int:
        """Read an `i32`, the number of items that follow, each of at least `item_size` bytes.

        Raises `SnapshotError` if the data is too short for the items, or if their number is negative.
        """
        at = self.position
        number = self.i32()
        if number < 0 or number * item_size > self.remaining:
            possible_range = f"0 to {self.remaining // item_size}"
            raise self.error("an impossible count", at=at, expected=possible_range, found=number)
        return number


class ByteWriter:
    """Writer of what `ByteReader` reads; each method that writes returns the writer."""

    def __init__(self) -> None:
        self.data = bytearray()

    def u8(self, value: int) -> Self:
        return self.raw(bytes((value,)))

    def boolean(self, flag: bool) -> Self:
        return self.u8(1 if flag else 0)

    def i16(self, value: int) -> Self:
        return self.raw(_I16.pack(value))

    def u16(self, value: int) -> Self:
        return self.raw(_U16.pack(value))

    def i32(self, value: int) -> Self:
        return self.raw(_I32.pack(value))

    def i64(self, value: int) -> Self:
        return self.raw(_I64.pack(value))

    def i64s(self, numbers: tuple[int, ...]) -> Self:
        return self.raw(struct.pack(f">{len(numbers)}q", *numbers))

    def raw(self, value: bytes) -> Self:
        self.data += value
        return self

    def blob(self, value: bytes) -> Self:
        return self.i32(len(value)).raw(value)

    def utf(self, value: str) -> Self:
        encoded = encode_modified_utf8(value)
        return self.u16(len(encoded)).raw(encoded)

    def bytes(self) -> bytes:
        return bytes(self.data)


def encode_modified_utf8(value: str) -> bytes:
    """Encode in Java's modified UTF-8: U+0000 as `C0 80`, a supplementary character as two surrogates of 3 bytes."""
    if value.isascii() and "\0" not in value:
        return value.encode()
    units = struct.unpack(f">{len(utf16_bytes := value.encode('utf-16-be', 'surrogatepass')) // 2}H", utf16_bytes)
    out = bytearray()
    for unit in units:
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(out)


def decode_modified_utf8(encoded: bytes) -> str:
    """Decode what `encode_modified_utf8` encodes; keep unpaired surrogates. Raises `UnicodeError` for other bytes."""
    if encoded.isascii():
        if b"\0" in encoded:
            raise UnicodeError("a zero byte")
        return encoded.decode()
    # surrogatepass takes the 3-byte surrogates one by one; going through UTF-16 joins the pairs.
    text = encoded.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    joined_text = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    if encode_modified_utf8(joined_text) != encoded:
        raise UnicodeError("an encoding that Java does not write")
    return joined_text

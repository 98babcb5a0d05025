"""Simple values, as Flink's serializers write them and Java hashes them, each class by its own rule.

The slow twin of the loop that walks keys. A value is an int, a float, a bool or None. These are tuples: a text (UTF-16
units), a big decimal (unscaled value, scale), a date or a time (fields), a Flink tuple, an object (fields), an either
(whether it is left, value) and a row (kind, fields). A list is a list, an array is bytes.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mmh3
from hypothesis import strategies as st

from support.java_hash_codes import (
    big_decimal_code,
    big_integer_code,
    date_code,
    float_bits,
    folded,
    long_code,
    time_code,
    wrapped,
)
from support.snapshot_bytes import BASE, i32, simple, snapshot

Values = st.SearchStrategy[Any]
ROW_DATA = "org.apache.flink.table.runtime.typeutils.BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot"
BYTES = BASE + "array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"


class JavaType:
    """A Java type and its serializer, whose snapshot is `snapshot`; `values` draws values other than null.

    With `has_null`, the serializer can also write null.
    """

    snapshot: bytes
    values: Values
    has_null = False

    def write(self, value: Any) -> bytes:
        raise NotImplementedError

    def read(self, stream: io.BytesIO) -> Any:
        raise NotImplementedError

    def code(self, value: Any) -> int:
        """Return the `hashCode` of a value."""
        raise NotImplementedError

    def code_or_null(self, value: Any) -> int:
        return 0 if value is None else self.code(value)

    def deep_code(self, value: Any) -> int:
        """Return the hash code of the value in a row."""
        return 0 if value is None else wrapped(31 + self.code(value))


def take(stream: io.BytesIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, stream.read(struct.calcsize(layout)))


@dataclass
class Packed(JavaType):
    """Type of fixed size, packed by `layout` and hashed by `rule`; the numbers `null`, if any, stand for null."""

    name: str
    layout: str
    values: Values
    rule: Callable[..., int]
    null: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self.snapshot = simple(self.name)
        self.has_null = self.null is not None

    def write(self, value: Any) -> bytes:
        numbers = self.null if value is None else value if isinstance(value, tuple) else (value,)
        assert numbers is not None
        return struct.pack(self.layout, *numbers)

    def read(self, stream: io.BytesIO) -> Any:
        numbers = take(stream, self.layout)
        if numbers == self.null:
            return None
        return numbers if len(numbers) > 1 else numbers[0]

    def code(self, value: Any) -> int:
        return self.rule(value)


def varint(number: int) -> bytes:
    out = []
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def read_varint(stream: io.BytesIO) -> int:
    byte = stream.read(1)[0]
    return byte if byte < 0x80 else byte & 0x7F | read_varint(stream) << 7


class Text(JavaType):
    snapshot = simple("String")
    has_null = True
    values = st.text().map(lambda text: struct.unpack(f"<{len(u := text.encode('utf-16-le')) // 2}H", u)) | st.lists(
        st.integers(0, 0xFFFF), max_size=6
    ).map(tuple)

    def write(self, value: tuple[int, ...] | None) -> bytes:
        return b"\0" if value is None else varint(len(value) + 1) + b"".join(map(varint, value))

    def read(self, stream: io.BytesIO) -> tuple[int, ...] | None:
        size = read_varint(stream)
        return tuple(read_varint(stream) for _ in range(size - 1)) if size else None

    def code(self, value: tuple[int, ...]) -> int:
        return folded(list(value), 0)


class BigInteger(JavaType):
    snapshot = simple("BigInt")
    has_null = True
    values = st.integers(-(1 << 200), 1 << 200) | st.integers(-300, 300) | st.sampled_from([-(1 << 31), -(1 << 63)])
    shortcuts = (None, 0, 1, 10)

    def write(self, value: int | None) -> bytes:
        if value in self.shortcuts:
            return i32(self.shortcuts.index(value))
        assert value is not None
        size = (value if value >= 0 else ~value).bit_length() // 8 + 1
        return i32(size + 4) + value.to_bytes(size, "big", signed=True)

    def read(self, stream: io.BytesIO) -> int | None:
        (size,) = take(stream, ">i")
        return self.shortcuts[size] if size < 4 else int.from_bytes(stream.read(size - 4), "big", signed=True)

    def code(self, value: int) -> int:
        return big_integer_code(value)


class BigDecimal(JavaType):
    snapshot = simple("BigDec")
    has_null = True
    values = st.tuples(BigInteger.values, st.integers(-(1 << 31), (1 << 31) - 1))

    def write(self, value: tuple[int, int] | None) -> bytes:
        return BigInteger().write(None) if value is None else BigInteger().write(value[0]) + i32(value[1])

    def read(self, stream: io.BytesIO) -> tuple[int, int] | None:
        unscaled = BigInteger().read(stream)
        return None if unscaled is None else (unscaled, take(stream, ">i")[0])

    def code(self, value: tuple[int, int]) -> int:
        return big_decimal_code(value)


class ByteArray(JavaType):
    """A byte array, which only rows hash by its content."""

    snapshot = snapshot(BYTES)
    values = st.binary(max_size=20)

    def write(self, value: bytes) -> bytes:
        return i32(len(value)) + value

    def read(self, stream: io.BytesIO) -> bytes:
        return stream.read(take(stream, ">i")[0])

    def code(self, value: bytes) -> int:
        return folded([wrapped(byte << 24) >> 24 for byte in value], 1)


class BinaryRow(ByteArray):
    snapshot = snapshot(ROW_DATA, 3, i32(1))
    values = st.integers(1, 5).flatmap(lambda number: st.binary(min_size=8 * number, max_size=8 * number))

    def code(self, value: bytes) -> int:
        return mmh3.hash(value, 42, signed=True)


def signed(bits: int) -> Values:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


SMALLEST_LONG, SMALLEST_INT = -(1 << 63), -(1 << 31)
NANOS = st.integers(0, 999_999_999)
TIMES = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), NANOS)
DATES = st.tuples(st.integers(-999_999_999, 999_999_999), st.integers(1, 12), st.integers(1, 31))
NO_DATE, NO_TIME = (SMALLEST_INT, -128, 0), (-128, -128, 0, SMALLEST_INT)
MILLIS = st.integers(SMALLEST_LONG + 1, -SMALLEST_LONG - 1)
HASHABLE_LEAVES: dict[str, JavaType] = {
    "Int": Packed("Int", ">i", signed(32), int),
    "Long": Packed("Long", ">q", signed(64), long_code),
    "Short": Packed("Short", ">h", signed(16), int),
    "Byte": Packed("Byte", ">b", signed(8), int),
    "Char": Packed("Char", ">H", st.integers(0, 0xFFFF), int),
    "Boolean": Packed("Boolean", ">?", st.booleans(), lambda value: 1231 if value else 1237),
    "Float": Packed("Float", ">f", st.floats(width=32), lambda value: float_bits(">f", ">i", value)),
    "Double": Packed("Double", ">d", st.floats(), lambda value: long_code(float_bits(">d", ">q", value))),
    "Date": Packed("Date", ">q", MILLIS, long_code, (SMALLEST_LONG,)),
    "SqlDate": Packed("SqlDate", ">q", MILLIS, long_code, (SMALLEST_LONG,)),
    "SqlTime": Packed("SqlTime", ">q", MILLIS, long_code, (SMALLEST_LONG,)),
    "SqlTimestamp": Packed(
        "SqlTimestamp", ">qi", st.tuples(MILLIS, NANOS), lambda value: long_code(value[0]), (SMALLEST_LONG, 0)
    ),
    "LocalDate": Packed("LocalDate", ">ibb", DATES, date_code, NO_DATE),
    "LocalTime": Packed("LocalTime", ">bbbi", TIMES, time_code, NO_TIME),
    "LocalDateTime": Packed(
        "LocalDateTime",
        ">ibbbbbi",
        st.builds(lambda date, time: date + time, DATES, TIMES),
        lambda value: date_code(value[:3]) ^ time_code(value[3:]),
        NO_DATE + NO_TIME,
    ),
    "Instant": Packed(
        "Instant",
        ">qi",
        st.tuples(MILLIS, NANOS),
        lambda value: wrapped(long_code(value[0]) + 51 * value[1]),
        (SMALLEST_LONG, SMALLEST_INT),
    ),
    "IntValue": Packed("IntValue", ">i", signed(32), int),
    "LongValue": Packed("LongValue", ">q", signed(64), lambda value: wrapped(43 + long_code(value))),
    "String": Text(),
    "BigInteger": BigInteger(),
    "BigDecimal": BigDecimal(),
    "BinaryRowData": BinaryRow(),
}
"""Types of simple keys, by their usual names."""

"""Values as Flink's serializers write them and Java hashes them: one value at a time, each class by its own rule.

The slow twin of the machine that walks keys. A value is an int, a float, a bool or None; a text is the tuple of its
UTF-16 units, a big decimal (unscaled value, scale), a date or a time the tuple of its fields; a tuple, an object of its
fields, an either (is it left, value) and a row (kind, fields) are tuples, a list is a list, an array is bytes.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mmh3
from hypothesis import strategies as st

from support.snapshot_bytes import BASE, RUNTIME, composite, i32, list_of, nested, pojo, simple, snapshot, utf

Values = st.SearchStrategy[Any]
ROW_DATA = "org.apache.flink.table.runtime.typeutils.BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot"
CASE_CLASS = "org.apache.flink.api.scala.typeutils.ScalaCaseClassSerializerSnapshot"
BYTES = BASE + "array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"


def wrapped(number: int) -> int:
    """What 32 bits keep of it."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def folded(codes: list[int], start: int) -> int:
    code = start
    for one in codes:
        code = wrapped(31 * code + one)
    return code


def long_code(number: int) -> int:
    unsigned = number % (1 << 64)
    return wrapped(unsigned ^ unsigned >> 32)


def big_integer_code(number: int) -> int:
    magnitude, code = abs(number), 0
    for shift in range(magnitude.bit_length() // 32 * 32, -1, -32):
        code = code * 31 + (magnitude >> shift & 0xFFFFFFFF)
    return wrapped(code if number >= 0 else -code)


def big_decimal_code(number: tuple[int, int]) -> int:
    unscaled, scale = number
    if -(1 << 63) < unscaled < 1 << 63:
        high, low = divmod(abs(unscaled), 1 << 32)
        part = wrapped(high * 31 + low)
        return wrapped(31 * (part if unscaled >= 0 else -part) + scale)
    return wrapped(31 * big_integer_code(unscaled) + scale)


def date_code(date: tuple[int, int, int]) -> int:
    year, month, day = date
    return wrapped(year & 0xFFFFF800 ^ (year << 11) + (month << 6) + day)


def time_code(time: tuple[int, int, int, int]) -> int:
    hour, minute, second, nano = time
    return long_code((hour * 3600 + minute * 60 + second) * 10**9 + nano)


def float_bits(kind: str, integer: str, value: float) -> int:
    canonical = struct.pack(kind, float("nan") if value != value else value)
    bits: int = struct.unpack(integer, canonical)[0]
    return bits


class JavaType:
    """`snapshot` is the serializer's, `values` makes values that are not null, for which it may have bytes too."""

    snapshot: bytes
    values: Values
    has_null = False

    def write(self, value: Any) -> bytes:
        raise NotImplementedError

    def read(self, stream: io.BytesIO) -> Any:
        raise NotImplementedError

    def code(self, value: Any) -> int:
        """`hashCode`."""
        raise NotImplementedError

    def code_or_null(self, value: Any) -> int:
        return 0 if value is None else self.code(value)

    def deep(self, value: Any) -> int:
        """What it adds to the hash of a row."""
        return 0 if value is None else wrapped(31 + self.code(value))


def take(stream: io.BytesIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, stream.read(struct.calcsize(layout)))


@dataclass
class Packed(JavaType):
    """Numbers of fixed size; `null` is what stands for none, if something does."""

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
    """Hashed by its content in rows alone."""

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
    values = st.integers(1, 5).flatmap(lambda words: st.binary(min_size=8 * words, max_size=8 * words))

    def code(self, value: bytes) -> int:
        return mmh3.hash(value, 42, signed=True)


@dataclass
class Tuple(JavaType):
    fields: list[JavaType]

    def __post_init__(self) -> None:
        name = utf(f"org.apache.flink.api.java.tuple.Tuple{len(self.fields)}")
        snapshots = (field.snapshot for field in self.fields)
        self.snapshot = composite(RUNTIME + "TupleSerializerSnapshot", *snapshots, outer=name, outer_version=2)
        self.values = st.tuples(*(field.values for field in self.fields))

    def write(self, value: tuple[Any, ...]) -> bytes:
        return b"".join(field.write(one) for field, one in zip(self.fields, value, strict=True))

    def read(self, stream: io.BytesIO) -> tuple[Any, ...]:
        return tuple(field.read(stream) for field in self.fields)

    def code(self, value: tuple[Any, ...]) -> int:
        return folded([field.code_or_null(one) for field, one in zip(self.fields, value, strict=True)], 0)


@dataclass
class Row(JavaType):
    """With `form` 4 the kind is written as `has_kind` says, with 3 always, before that never."""

    fields: list[JavaType]
    has_kind: bool = True
    form: int = 4

    def __post_init__(self) -> None:
        outer = bytes((self.has_kind,)) if self.form == 4 else b""
        name = RUNTIME + "RowSerializer$RowSerializerSnapshot"
        snapshots = [field.snapshot for field in self.fields]
        if self.form > 2:
            self.snapshot = composite(name, *snapshots, outer=outer, outer_version=self.form)
        else:
            self.snapshot = snapshot(name, self.form, nested(*snapshots))
        self.values = st.tuples(
            st.integers(0, 3 if self.has_kind else 0),
            st.tuples(*(st.none() | field.values for field in self.fields)),
        )

    def write(self, value: tuple[int, tuple[Any, ...]]) -> bytes:
        kind, fields = value
        bits = [one is None for one in fields]
        if self.has_kind:
            bits = [kind % 2 == 1, kind >= 2, *bits]
        bits += [False] * (-len(bits) % 8)
        mask = sum(bit << at for at, bit in enumerate(reversed(bits))).to_bytes(len(bits) // 8, "big")
        return mask + b"".join(
            field.write(one) for field, one in zip(self.fields, fields, strict=True) if one is not None
        )

    def read(self, stream: io.BytesIO) -> tuple[int, tuple[Any, ...]]:
        size = (len(self.fields) + 2 * self.has_kind + 7) // 8
        bits = [byte >> shift & 1 for byte in stream.read(size) for shift in range(7, -1, -1)]
        kind = bits.pop(0) + 2 * bits.pop(0) if self.has_kind else 0
        return kind, tuple(None if null else field.read(stream) for field, null in zip(self.fields, bits, strict=False))

    def code(self, value: tuple[int, tuple[Any, ...]]) -> int:
        kind, fields = value
        deep = folded([field.deep(one) for field, one in zip(self.fields, fields, strict=True)], 1)
        return wrapped(31 * kind + deep)


@dataclass
class List(JavaType):
    element: JavaType

    def __post_init__(self) -> None:
        self.snapshot = list_of(self.element.snapshot)
        self.values = st.lists(self.element.values, max_size=3)

    def write(self, value: list[Any]) -> bytes:
        return i32(len(value)) + b"".join(map(self.element.write, value))

    def read(self, stream: io.BytesIO) -> list[Any]:
        return [self.element.read(stream) for _ in range(take(stream, ">i")[0])]

    def code(self, value: list[Any]) -> int:
        return folded(list(map(self.element.code_or_null, value)), 1)

    def deep(self, value: list[Any] | None) -> int:
        return 0 if value is None else folded(list(map(self.element.deep, value)), 1)


@dataclass
class Either(JavaType):
    """Of null it has no hash."""

    left: JavaType
    right: JavaType

    def __post_init__(self) -> None:
        name = RUNTIME + "JavaEitherSerializerSnapshot"
        self.snapshot = composite(name, self.left.snapshot, self.right.snapshot)
        sides = ((True, self.left.values), (False, self.right.values))
        self.values = st.one_of(
            st.tuples(st.just(is_left), one.filter(lambda value: value is not None)) for is_left, one in sides
        )

    def write(self, value: tuple[bool, Any]) -> bytes:
        is_left, one = value
        return bytes((is_left,)) + (self.left if is_left else self.right).write(one)

    def read(self, stream: io.BytesIO) -> tuple[bool, Any]:
        is_left = stream.read(1) == b"\1"
        return is_left, (self.left if is_left else self.right).read(stream)

    def code(self, value: tuple[bool, Any]) -> int:
        return (self.left if value[0] else self.right).code(value[1])


@dataclass
class Nullable(JavaType):
    inner: JavaType
    padding: int

    def __post_init__(self) -> None:
        name = RUNTIME + "NullableSerializer$NullableSerializerSnapshot"
        self.snapshot = composite(name, self.inner.snapshot, outer=i32(self.padding), outer_version=2)
        self.values = st.none() | self.inner.values

    def write(self, value: Any) -> bytes:
        return b"\1" + bytes(self.padding) if value is None else b"\0" + self.inner.write(value)

    def read(self, stream: io.BytesIO) -> Any:
        if stream.read(1) == b"\0":
            return self.inner.read(stream)
        stream.read(self.padding)
        return None

    def code(self, value: Any) -> int:
        return self.inner.code(value)

    def deep(self, value: Any) -> int:
        return 0 if value is None else self.inner.deep(value)


@dataclass
class Pojo(JavaType):
    """Fields in the order of their names. Its `hashCode` begins with `start` and goes through those of `order`.

    `codes` are by field what it counts if it is not for the value's `hashCode` to say, `null` is what no value counts.
    """

    fields: dict[str, JavaType]
    start: int
    factor: int
    order: list[str]
    null: int = 0
    codes: dict[str, Callable[[Any], int]] | None = None
    name: str = "com.example.Order"

    def __post_init__(self) -> None:
        self.fields = dict(sorted(self.fields.items()))
        self.snapshot = pojo({name: field.snapshot for name, field in self.fields.items()}, name=self.name)
        self.values = st.tuples(*(st.none() | field.values for field in self.fields.values()))

    def write(self, value: tuple[Any, ...] | None) -> bytes:
        if value is None:
            return b"\1"
        fields = zip(self.fields.values(), value, strict=True)
        return b"\2" + b"".join(b"\1" if one is None else b"\0" + field.write(one) for field, one in fields)

    def read(self, stream: io.BytesIO) -> tuple[Any, ...] | None:
        if stream.read(1) == b"\1":
            return None
        return tuple(None if stream.read(1) == b"\1" else field.read(stream) for field in self.fields.values())

    def code(self, value: tuple[Any, ...]) -> int:
        code, values = wrapped(self.start), dict(zip(self.fields, value, strict=True))
        for name in self.order:
            of_value = (self.codes or {}).get(name, self.fields[name].code)
            code = wrapped(code * self.factor + (self.null if values[name] is None else of_value(values[name])))
        return code


def rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) % (1 << 32)


@dataclass
class CaseClass(JavaType):
    """`scala.util.hashing.MurmurHash3.productHash` over `##`, which of a long that is an int is the int's."""

    fields: list[JavaType]

    def __post_init__(self) -> None:
        snapshots = (field.snapshot for field in self.fields)
        self.snapshot = composite(CASE_CLASS, *snapshots, outer=utf("com.example.Point"), outer_version=2)
        self.values = st.tuples(*(field.values for field in self.fields))

    def write(self, value: tuple[Any, ...]) -> bytes:
        return b"".join(field.write(one) for field, one in zip(self.fields, value, strict=True))

    def read(self, stream: io.BytesIO) -> tuple[Any, ...]:
        return tuple(field.read(stream) for field in self.fields)

    def code(self, value: tuple[Any, ...]) -> int:
        state = 0xCAFEBABE
        for field, one in zip(self.fields, value, strict=True):
            code = wrapped(one) if field.snapshot == simple("Long") else field.code_or_null(one)
            if field.snapshot == simple("Long") and code != one:
                code = field.code(one)
            word = rotated(code * 0xCC9E2D51 % (1 << 32), 15) * 0x1B873593 % (1 << 32)
            state = (rotated(state ^ word, 13) * 5 + 0xE6546B64) % (1 << 32)
        state ^= len(self.fields)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            state = (state ^ state >> shift) * factor % (1 << 32)
        return wrapped(state)


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
"""What a key can be that holds nothing else, by what people call it."""

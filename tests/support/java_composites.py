"""Composite values, as Flink's serializers write them and Java hashes them; simple values are in `java_values`."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from support.java_hash_codes import folded, wrapped
from support.java_values import JavaType, take
from support.snapshot_bytes import RUNTIME, composite, i32, list_of, pojo, simple, utf

CASE_CLASS = "org.apache.flink.api.scala.typeutils.ScalaCaseClassSerializerSnapshot"


@dataclass
class Tuple(JavaType):
    fields: list[JavaType]

    def __post_init__(self) -> None:
        name = utf(f"org.apache.flink.api.java.tuple.Tuple{len(self.fields)}")
        snapshots = (field.snapshot for field in self.fields)
        self.snapshot = composite(RUNTIME + "TupleSerializerSnapshot", *snapshots, outer=name, outer_version=2)
        self.values = st.tuples(*(field.values for field in self.fields))

    def write(self, value: tuple[Any, ...]) -> bytes:
        return b"".join(field.write(item) for field, item in zip(self.fields, value, strict=True))

    def read(self, stream: io.BytesIO) -> tuple[Any, ...]:
        return tuple(field.read(stream) for field in self.fields)

    def code(self, value: tuple[Any, ...]) -> int:
        return folded([field.code_or_null(item) for field, item in zip(self.fields, value, strict=True)], 0)


@dataclass
class Row(JavaType):
    """A row; `form` is the version of its outer snapshot.

    Version 3 always writes the kind of the row, version 4 only if `has_kind` is true, and older versions never do.
    """

    fields: list[JavaType]
    has_kind: bool = True
    form: int = 4

    def __post_init__(self) -> None:
        outer = bytes((self.has_kind,)) if self.form == 4 else b""
        name = RUNTIME + "RowSerializer$RowSerializerSnapshot"
        snapshots = [field.snapshot for field in self.fields]
        self.snapshot = composite(name, *snapshots, outer=outer, outer_version=self.form)
        self.values = st.tuples(
            st.integers(0, 3 if self.has_kind else 0),
            st.tuples(*(st.none() | field.values for field in self.fields)),
        )

    def write(self, value: tuple[int, tuple[Any, ...]]) -> bytes:
        kind, fields = value
        bits = [field is None for field in fields]
        if self.has_kind:
            bits = [kind % 2 == 1, kind >= 2, *bits]
        bits += [False] * (-len(bits) % 8)
        mask = sum(bit << at for at, bit in enumerate(reversed(bits))).to_bytes(len(bits) // 8, "big")
        return mask + b"".join(
            field.write(item) for field, item in zip(self.fields, fields, strict=True) if item is not None
        )

    def read(self, stream: io.BytesIO) -> tuple[int, tuple[Any, ...]]:
        size = (len(self.fields) + 2 * self.has_kind + 7) // 8
        bits = [byte >> shift & 1 for byte in stream.read(size) for shift in range(7, -1, -1)]
        kind = bits.pop(0) + 2 * bits.pop(0) if self.has_kind else 0
        return kind, tuple(None if null else field.read(stream) for field, null in zip(self.fields, bits, strict=False))

    def code(self, value: tuple[int, tuple[Any, ...]]) -> int:
        kind, fields = value
        deep_code = folded([field.deep_code(item) for field, item in zip(self.fields, fields, strict=True)], 1)
        return wrapped(31 * kind + deep_code)


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

    def deep_code(self, value: list[Any] | None) -> int:
        return 0 if value is None else folded(list(map(self.element.deep_code, value)), 1)


@dataclass
class Either(JavaType):
    """Flink's `Either`, whose `hashCode` fails for a null value."""

    left: JavaType
    right: JavaType

    def __post_init__(self) -> None:
        name = RUNTIME + "JavaEitherSerializerSnapshot"
        self.snapshot = composite(name, self.left.snapshot, self.right.snapshot)
        sides = ((True, self.left.values), (False, self.right.values))
        self.values = st.one_of(
            st.tuples(st.just(is_left), values.filter(lambda value: value is not None)) for is_left, values in sides
        )

    def write(self, value: tuple[bool, Any]) -> bytes:
        is_left, item = value
        return bytes((is_left,)) + (self.left if is_left else self.right).write(item)

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

    def deep_code(self, value: Any) -> int:
        return 0 if value is None else self.inner.deep_code(value)


@dataclass
class Pojo(JavaType):
    """A POJO; fields are in the order of their names.

    Its `hashCode` begins with `start`. For each field in `order`, it is multiplied by `factor`, and the field's code is
    added. `codes` has functions for fields whose code is not the value's `hashCode`; `null` is the code of a missing
    value.
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
        return b"\2" + b"".join(b"\1" if item is None else b"\0" + field.write(item) for field, item in fields)

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
    """A case class, hashed by `scala.util.hashing.MurmurHash3.productHash` from the `##` of its fields.

    A long that fits into an int has the `##` of that int.
    """

    fields: list[JavaType]

    def __post_init__(self) -> None:
        snapshots = (field.snapshot for field in self.fields)
        self.snapshot = composite(CASE_CLASS, *snapshots, outer=utf("com.example.Point"), outer_version=2)
        self.values = st.tuples(*(field.values for field in self.fields))

    def write(self, value: tuple[Any, ...]) -> bytes:
        return b"".join(field.write(item) for field, item in zip(self.fields, value, strict=True))

    def read(self, stream: io.BytesIO) -> tuple[Any, ...]:
        return tuple(field.read(stream) for field in self.fields)

    def code(self, value: tuple[Any, ...]) -> int:
        state = 0xCAFEBABE
        for field, item in zip(self.fields, value, strict=True):
            code = wrapped(item) if field.snapshot == simple("Long") else field.code_or_null(item)
            if field.snapshot == simple("Long") and code != item:
                code = field.code(item)
            word = rotated(code * 0xCC9E2D51 % (1 << 32), 15) * 0x1B873593 % (1 << 32)
            state = (rotated(state ^ word, 13) * 5 + 0xE6546B64) % (1 << 32)
        state ^= len(self.fields)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            state = (state ^ state >> shift) * factor % (1 << 32)
        return wrapped(state)

"""What a serializer writes, as a tree of steps: each knows its bytes and how Java's `hashCode` follows from them.

Two rules of Java make the tree more than a list of fields. A tuple or a list folds the hashes of what it holds with 31.
A `Row` hashes its fields *deeply* (`RowUtils.deepHashCodeInternal`): every value that is neither null nor a list counts
as an array of one element, which adds 31, and so do the elements of a list in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class FixedHash(IntEnum):
    """How the `hashCode` follows from a fixed number of bytes, by the class of the value."""

    UNKNOWN = 0
    INTEGER = 1
    """`Byte`, `Short`, `Integer`: the value."""
    CHARACTER = 2
    BOOLEAN = 3
    FLOAT = 4
    LONG = 5
    DOUBLE = 6
    DATE = 7
    """`java.util.Date` and its subclasses: as `Long`, of the first eight bytes; the smallest long is null."""
    LOCAL_DATE = 8
    LOCAL_TIME = 9
    LOCAL_DATE_TIME = 10
    INSTANT = 11
    LONG_VALUE = 12
    ZERO = 13
    """`Tuple0`."""


class BlobHash(IntEnum):
    """How the `hashCode` follows from bytes with their length in front."""

    UNKNOWN = 0
    ARRAY = 1
    """`Arrays.hashCode(byte[])`."""
    BINARY_ROW = 2
    """`MurmurHashUtil.hashByWords` of a `BinaryRowData`."""


@dataclass(frozen=True)
class Fixed:
    """`size` bytes. `declared` is what the serializer's `getLength` says if that is not the size."""

    size: int
    rule: FixedHash = FixedHash.UNKNOWN
    declared: int | None = None

    @property
    def length(self) -> int:
        return self.size if self.declared is None else self.declared

    @property
    def hashable(self) -> bool:
        return self.rule != FixedHash.UNKNOWN


class _Variable:
    """A step whose serializer's `getLength` is negative."""

    @property
    def length(self) -> None:
        return None


@dataclass(frozen=True)
class Text(_Variable):
    """`StringValue.writeString`: the number of UTF-16 units, plus one if there is a null, and the units, all packed."""

    has_null: bool = True
    hashable: bool = True


@dataclass(frozen=True)
class Number(_Variable):
    """`BigIntSerializer`; `scaled`: `BigDecSerializer`, with the scale behind."""

    scaled: bool
    hashable = True


@dataclass(frozen=True)
class Blob(_Variable):
    """`i32` length and as many bytes."""

    rule: BlobHash

    @property
    def hashable(self) -> bool:
        return self.rule != BlobHash.UNKNOWN


@dataclass(frozen=True)
class Sequence:
    """Fields one after the other; `folds`: the hash is a tuple's."""

    fields: tuple[Step, ...]
    folds: bool = True

    @property
    def length(self) -> int | None:
        """`TupleSerializerBase.getLength`, for which a field without length makes the whole variable."""
        lengths = [field.length or 0 for field in self.fields]
        return sum(lengths) if all(lengths) else None

    @property
    def hashable(self) -> bool:
        return self.folds and _all_hashable(self.fields)


@dataclass(frozen=True)
class Masked(_Variable):
    """`RowSerializer`: a mask of bits, highest first, and the fields that it does not call null.

    `has_kind`: the first two bits are the row's kind.
    """

    fields: tuple[Step, ...]
    has_kind: bool

    @property
    def hashable(self) -> bool:
        return _all_hashable(self.fields)


@dataclass(frozen=True)
class Repeat(_Variable):
    """`i32` count and as many times the items; `folds`: the hash is a list's.

    The items take at least one byte, so that a count above what is left is known to be damage.
    """

    items: tuple[Step, ...]
    folds: bool = True

    @property
    def hashable(self) -> bool:
        return self.folds and _all_hashable(self.items)


@dataclass(frozen=True)
class Union(_Variable):
    """`EitherSerializer`: whether it is the left one, and its value, of which the hash is."""

    left: Step
    right: Step

    @property
    def hashable(self) -> bool:
        return self.left.hashable and self.right.hashable


@dataclass(frozen=True)
class Nullable:
    """Whether it is null, then the value, or `padding` bytes in its place (`NullableSerializer`)."""

    inner: Step
    padding: int = 0

    @property
    def length(self) -> int | None:
        return 1 + self.padding if self.padding else None

    @property
    def hashable(self) -> bool:
        return self.inner.hashable


@dataclass(frozen=True)
class Flagged(_Variable):
    """`PojoSerializer`: flags, then each field as nullable. Objects of subclasses are not followed."""

    fields: tuple[Step, ...]
    hashable = False


@dataclass(frozen=True)
class Deep:
    """A value that a `Row` hashes, itself or in a list: 31 more unless it is null."""

    inner: Step

    @property
    def length(self) -> int | None:
        return self.inner.length

    @property
    def hashable(self) -> bool:
        return self.inner.hashable


Step = Fixed | Text | Number | Blob | Sequence | Masked | Repeat | Union | Nullable | Flagged | Deep


def _all_hashable(steps: tuple[Step, ...]) -> bool:
    return all(step.hashable for step in steps)

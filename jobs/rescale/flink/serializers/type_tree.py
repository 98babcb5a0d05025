"""Tree of types for the bytes of a serializer: a type knows the format of its bytes, and its Java `hashCode`.

Two rules of `hashCode` make the tree more than a list of fields. A tuple or a list folds the hashes of its elements
with 31. A `Row` hashes its fields *deeply* (`RowUtils.deepHashCodeInternal`): every value that is neither null nor a
list hashes like an array of one element, which adds 31. Every element of a list in a row also hashes like an array of
one element.

The `hashCode` of a user's own class does not follow from the bytes. For such a class, the end of a value is known, but
not its hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum


class FixedHash(IntEnum):
    """Rule for the `hashCode` of a value whose size in bytes is fixed; most are named after its class."""

    UNKNOWN = 0
    INTEGER = 1
    """`Byte`, `Short`, `Integer`: the hash is the value."""
    CHARACTER = 2
    BOOLEAN = 3
    FLOAT = 4
    LONG = 5
    DOUBLE = 6
    DATE = 7
    """`java.util.Date`, its subclasses: the hash of the first eight bytes as `Long`; the smallest long means null."""
    LOCAL_DATE = 8
    LOCAL_TIME = 9
    LOCAL_DATE_TIME = 10
    INSTANT = 11
    LONG_VALUE = 12
    ZERO = 13
    """`Tuple0`: the hash is 0."""
    SCALA_LONG = 14
    """`Statics.longHash`: a long in the range of an int has the hash of that int."""
    IDENTITY = 15
    """`Enum`: the hash differs in each JVM, so it cannot be computed."""


_SIZES_BY_RULE = {
    FixedHash.INTEGER: (1, 2, 4),
    FixedHash.CHARACTER: (2,),
    FixedHash.BOOLEAN: (1,),
    FixedHash.FLOAT: (4,),
    FixedHash.LONG: (8,),
    FixedHash.DOUBLE: (8,),
    FixedHash.DATE: (8, 12),
    FixedHash.LOCAL_DATE: (6,),
    FixedHash.LOCAL_TIME: (7,),
    FixedHash.LOCAL_DATE_TIME: (13,),
    FixedHash.INSTANT: (12,),
    FixedHash.LONG_VALUE: (8,),
    FixedHash.SCALA_LONG: (8,),
}
"""Possible sizes of a value in bytes, by rule; under the other rules, values may have any size."""


class BlobHash(IntEnum):
    """Rule for the `hashCode` of bytes with their length in front."""

    UNKNOWN = 0
    ARRAY = 1
    """`Arrays.hashCode(byte[])`."""
    BINARY_ROW = 2
    """`BinarySegmentUtils.hashByWords` of a `BinaryRowData`."""


@dataclass(frozen=True)
class Fixed:
    """A value of `size` bytes; `declared` is the result of the serializer's `getLength` if it differs from the size.

    -1 stands for a variable length, as in Flink. Raises `ValueError` for a size that the rule does not allow.
    """

    size: int
    rule: FixedHash = FixedHash.UNKNOWN
    declared: int | None = None

    def __post_init__(self) -> None:
        if self.size < 0 or self.size not in _SIZES_BY_RULE.get(self.rule, (self.size,)):
            raise ValueError(f"no value that hashes as {self.rule.name} has {self.size} bytes")

    @property
    def length(self) -> int | None:
        length = self.size if self.declared is None else self.declared
        return length if length >= 0 else None

    @property
    def hashable(self) -> bool:
        return self.rule not in (FixedHash.UNKNOWN, FixedHash.IDENTITY)


class _Variable:
    """A type whose serializer's `getLength` is negative."""

    @property
    def length(self) -> None:
        return None


@dataclass(frozen=True)
class Text(_Variable):
    """`StringValue.writeString`: the number of UTF-16 units, then the units, all as variable-length numbers.

    With `has_null`, the stored number is larger by one, and 0 stands for null.
    """

    has_null: bool = True
    hashable: bool = True


@dataclass(frozen=True)
class Number(_Variable):
    """`BigIntSerializer`; if `scaled`, `BigDecSerializer`, with the scale after the number."""

    scaled: bool
    hashable = True


@dataclass(frozen=True)
class Blob(_Variable):
    """An `i32` length, then that many bytes."""

    rule: BlobHash

    @property
    def hashable(self) -> bool:
        return self.rule != BlobHash.UNKNOWN


@dataclass(frozen=True)
class Uuid(_Variable):
    """`java.util.UUID` as Kryo writes it: 0 for null; or the class id and a mark, then the higher and the lower long.

    Kryo 2 (Flink 1) writes zigzag numbers of up to nine bytes (`UUIDSerializer` of Chill). Kryo 5 (Flink 2) writes
    eight bytes each, the lowest first (`DefaultSerializers.UUIDSerializer`).
    """

    kryo_version: int
    hashable = True


@dataclass(frozen=True)
class Sequence:
    """Fields one after the other (`TupleSerializer`)."""

    fields: tuple[TypeTree, ...]

    @property
    def length(self) -> int | None:
        """`TupleSerializerBase.getLength`: a field whose length is variable or 0 makes the whole length variable."""
        return _total_length(self.fields)

    @property
    def hashable(self) -> bool:
        return _are_hashable(self.fields)


class Opaque(Sequence):
    """A single field whose bytes are not those of the object that Flink hashes (`ExternalSerializer`)."""

    hashable = False

    @property
    def length(self) -> int | None:
        return self.fields[0].length


@dataclass(frozen=True)
class Product:
    """`ScalaCaseClassSerializer`; with `default_hash`, the class has the hash that Scala's compiler generates.

    This hash is `MurmurHash3.productHash`.
    """

    fields: tuple[TypeTree, ...]
    default_hash: bool = False

    @property
    def length(self) -> int | None:
        """Length, by the rule of `TupleSerializerBase.getLength`."""
        return _total_length(self.fields)

    @property
    def hashable(self) -> bool:
        return self.default_hash and len(self.fields) > 0 and _are_hashable(self.fields)


@dataclass(frozen=True)
class Masked(_Variable):
    """`RowSerializer`: a mask whose bits, highest first, say which fields are null, then the fields that are not null.

    If `has_kind`, the first two bits of the mask are the row's kind.
    """

    fields: tuple[TypeTree, ...]
    has_kind: bool

    @property
    def hashable(self) -> bool:
        return _are_hashable(self.fields)


@dataclass(frozen=True)
class Repeat(_Variable):
    """An `i32` count, then the `items` that many times. With `folds`, the value hashes as a list.

    The items together have at least one byte, so a count above the number of remaining bytes is an error.
    """

    items: tuple[TypeTree, ...]
    folds: bool = True

    @property
    def hashable(self) -> bool:
        return self.folds and _are_hashable(self.items)


EITHER_TAGS = (1, 0)


@dataclass(frozen=True)
class Union(_Variable):
    """A tag of one byte, then a value of the field with that tag; `tags` has the tag of each field.

    The tags of `EitherSerializer` are 1 (left) and 0, and an `Either` hashes like the value in it. Other unions have no
    hash.
    """

    fields: tuple[TypeTree, ...]
    tags: tuple[int, ...] = EITHER_TAGS

    @property
    def hashable(self) -> bool:
        return self.tags == EITHER_TAGS and _are_hashable(self.fields)


@dataclass(frozen=True)
class Nullable:
    """A null flag, then the value, or `padding` bytes if it is null (`NullableSerializer`)."""

    inner: TypeTree
    padding: int = 0

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"padding of {self.padding} bytes")

    @property
    def length(self) -> int | None:
        return 1 + self.padding if self.padding else None

    @property
    def hashable(self) -> bool:
        return self.inner.hashable


@dataclass(frozen=True)
class WeightedSum:
    """A `hashCode` made of the hashes of the fields: `constant` plus each hash times its weight, modulo 2^32.

    A field that is null has the hash `null_hash`.
    """

    constant: int
    weights: tuple[int, ...]
    null_hash: int


@dataclass(frozen=True)
class Flagged(_Variable):
    """`PojoSerializer`: flags, then each field as nullable. The end of an object of a subclass is unknown.

    `names` are the names of the fields. Without a `hash_sum`, the hash is unknown.
    """

    class_name: str
    names: tuple[str, ...]
    fields: tuple[TypeTree, ...]
    hash_sum: WeightedSum | None = None

    @property
    def hashable(self) -> bool:
        if self.hash_sum is None:
            return False
        fields_and_weights = zip(self.fields, self.hash_sum.weights, strict=True)
        return all(field.hashable for field, weight in fields_and_weights if weight)


@dataclass(frozen=True)
class Deep:
    """A value in a `Row`, as a field or in a list: its hash is the hash of `inner` plus 31, unless it is null."""

    inner: TypeTree

    @property
    def length(self) -> int | None:
        return self.inner.length

    @property
    def hashable(self) -> bool:
        return self.inner.hashable


TypeTree = (
    Fixed | Text | Number | Blob | Uuid | Sequence | Product | Masked | Repeat | Union | Nullable | Flagged | Deep
)


def nodes(tree: TypeTree) -> Iterator[TypeTree]:
    """Yield the tree and all types inside it, in the order of their bytes."""
    yield tree
    for child in _children(tree):
        yield from nodes(child)


def is_never_empty(tree: TypeTree) -> bool:
    """Whether every value has at least one byte; a value of a class without fields may have none."""
    match tree:
        case Fixed(size):
            return size > 0
        case Sequence(fields) | Product(fields):
            return any(map(is_never_empty, fields))
        case Masked(fields, has_kind):
            return has_kind or len(fields) > 0
        case Deep(inner):
            return is_never_empty(inner)
    return True


def map_tree(tree: TypeTree, change: Callable[[TypeTree], TypeTree]) -> TypeTree:
    """Return the tree with `change` applied to every node, to inner nodes first."""
    new_children = tuple(map_tree(child, change) for child in _children(tree))
    match tree:
        case Sequence() | Product() | Masked() | Union() | Flagged():
            tree = replace(tree, fields=new_children)
        case Repeat():
            tree = replace(tree, items=new_children)
        case Nullable() | Deep():
            tree = replace(tree, inner=new_children[0])
    return change(tree)


def _children(tree: TypeTree) -> tuple[TypeTree, ...]:
    match tree:
        case Sequence(fields) | Product(fields) | Masked(fields) | Union(fields) | Flagged(fields=fields):
            return fields
        case Repeat(items):
            return items
        case Nullable(inner) | Deep(inner):
            return (inner,)
    return ()


def _are_hashable(trees: tuple[TypeTree, ...]) -> bool:
    return all(tree.hashable for tree in trees)


def _total_length(fields: tuple[TypeTree, ...]) -> int | None:
    lengths = [field.length or 0 for field in fields]
    return sum(lengths) if all(lengths) else None

"""Serializers in `flink-core`: basic types, arrays, collections, tuples, `Row`, POJOs and Kryo."""

from __future__ import annotations

from collections.abc import Mapping

from rescale.flink.advice import DIVISORS_NEED_NO_HASH
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.serializers.layouts import COMPOSITE_MAGIC, constants, fields, kryo, outer_fields, pojo
from rescale.flink.serializers.rows.families import (
    OLD_COMPOSITE,
    OLD_SIMPLE,
    composite_row,
    nested_snapshot,
    simple_row,
)
from rescale.flink.serializers.serializer import Serializer, TreeOf, Values, from_all_nested, from_nested, trees_of
from rescale.flink.serializers.snapshot import KRYO, KRYO_SNAPSHOT, OWN_KRYO_SERIALIZER, SerializerSnapshot
from rescale.flink.serializers.type_tree import (
    Blob,
    BlobHash,
    Deep,
    Fixed,
    FixedHash,
    Flagged,
    Masked,
    Nullable,
    Number,
    Repeat,
    Sequence,
    Text,
    TypeTree,
    Union,
    Uuid,
)
from rescale.text.errors import SnapshotError, UnsupportedError

_BASE_PACKAGE = "org.apache.flink.api.common.typeutils.base."
_JAVA_PACKAGE = "org.apache.flink.api.java.typeutils.runtime."

_UUID = "java.util.UUID"
_NO_BYTES = Fixed(0)
_ROW_WITH_KIND_AND_NO_FLAG = 3
"""Outer version of `RowSerializerSnapshot` for rows with a kind.

Older versions have neither a kind nor a flag for it, and newer versions have a flag.
"""


def _base_row(name: str, values: Values | None = None, versions: Mapping[int, str] = OLD_SIMPLE) -> Serializer:
    return simple_row(nested_snapshot(f"{_BASE_PACKAGE}{name}Serializer"), name, values, versions=versions)


def _array_row(element: str, values: Values, name: str = "") -> Serializer:
    return simple_row(
        nested_snapshot(f"{_BASE_PACKAGE}array.{element}ArraySerializer"),
        f"{name or element}[]",
        values,
        versions=OLD_SIMPLE,
    )


def _number_array_row(primitive: str, size: int) -> Serializer:
    return _array_row(f"{primitive}Primitive", Repeat((Fixed(size),), folds=False), primitive)


def _nullable_tree(snapshot: SerializerSnapshot, tree_of: TreeOf) -> TypeTree:
    (tree,) = trees_of(1, snapshot, tree_of)
    padding = int(*snapshot.values("padding"))
    if padding < 0:
        raise SnapshotError(
            "a serializer snapshot has a negative number of bytes for null: NullableSerializer",
            expected="0 or more",
            found=padding,
        )
    return Nullable(tree, padding)


def _row_tree(snapshot: SerializerSnapshot, tree_of: TreeOf) -> TypeTree:
    return Masked(tuple(_with_row_hash(tree_of(field)) for field in snapshot.nested), _has_kind(snapshot))


def _with_row_hash(tree: TypeTree) -> TypeTree:
    """Return the tree that hashes its value as `RowUtils` does."""
    match tree:
        case Repeat((element,), folds=True):
            return Repeat((_with_row_hash(element),))
        case Nullable(nullable, padding):
            return Nullable(_with_row_hash(nullable), padding)
        case Blob(BlobHash.UNKNOWN):
            return Deep(Blob(BlobHash.ARRAY))
    return Deep(tree)


def _has_kind(snapshot: SerializerSnapshot) -> bool:
    """Whether rows were written with their kind; old snapshots have no flag that says so."""
    for flag in snapshot.values("supportsRowKind"):
        return flag == str(True)
    reader = ByteReader(snapshot.body)
    return (reader.i32(), reader.i32()) == (COMPOSITE_MAGIC, _ROW_WITH_KIND_AND_NO_FLAG)


def _pojo_tree(snapshot: SerializerSnapshot, tree_of: TreeOf) -> TypeTree:
    names, subclass_names = snapshot.values("field"), snapshot.values("registered subclass")
    (class_name,) = snapshot.values("class")
    if len(snapshot.nested) < len(names) + len(subclass_names):
        raise UnsupportedError(
            f"the fields of POJO {class_name} are not all known: their snapshots are missing",
            advice=DIVISORS_NEED_NO_HASH,
        )
    trees = tuple(_hashed_by_content(tree_of(field)) for field in snapshot.nested[: len(names)])
    return Flagged(class_name, names, trees)


def _kryo_tree(snapshot: SerializerSnapshot, _: TreeOf) -> TypeTree | None:
    """Return the tree of a UUID; None for other classes, whose format is unknown.

    The format of a UUID is also unknown without the attribute `KRYO`, or if the job registered its own Kryo serializer
    for UUIDs.
    """
    is_known = snapshot.values("class") == (_UUID,) and _UUID not in snapshot.values(OWN_KRYO_SERIALIZER)
    return next((Uuid(int(version)) for version in snapshot.values(KRYO) if is_known), None)


def _hashed_by_content(field: TypeTree) -> TypeTree:
    """Return the tree of a POJO's field, with the assumption that a byte array hashes by its content.

    If it hashed by identity, the POJO would not work as a key.
    """
    return Blob(BlobHash.ARRAY) if field == Blob(BlobHash.UNKNOWN) else field


LONG = _base_row("Long", Fixed(8, FixedHash.LONG))
LIST = composite_row(
    _BASE_PACKAGE + "ListSerializerSnapshot",
    "List",
    {1: "1.8"},
    from_nested(1, lambda element: Repeat((element,))),
    versions=OLD_COMPOSITE,
)
MAP = composite_row(
    _BASE_PACKAGE + "MapSerializerSnapshot",
    "Map",
    {1: "1.8"},
    from_nested(2, lambda key, value: Repeat((key, Nullable(value)), folds=False)),
    versions=OLD_COMPOSITE,
)
BYTE_ARRAY = _array_row("BytePrimitive", Blob(BlobHash.UNKNOWN), "Byte")
POJO = Serializer(_JAVA_PACKAGE + "PojoSerializerSnapshot", "POJO {class}", {2: "1.8"}, pojo, _pojo_tree, shown=(0, 0))

ROWS = (
    _base_row("Boolean", Fixed(1, FixedHash.BOOLEAN)),
    _base_row("Byte", Fixed(1, FixedHash.INTEGER)),
    _base_row("Short", Fixed(2, FixedHash.INTEGER)),
    _base_row("Char", Fixed(2, FixedHash.CHARACTER)),
    _base_row("Int", Fixed(4, FixedHash.INTEGER)),
    _base_row("Float", Fixed(4, FixedHash.FLOAT)),
    LONG,
    _base_row("Double", Fixed(8, FixedHash.DOUBLE)),
    _base_row("String", Text()),
    _base_row("BigInt", Number(scaled=False)),
    _base_row("BigDec", Number(scaled=True)),
    _base_row("Void", Fixed(1)),
    _base_row("Date", Fixed(8, FixedHash.DATE)),
    _base_row("SqlDate", Fixed(8, FixedHash.DATE)),
    _base_row("SqlTime", Fixed(8, FixedHash.DATE)),
    _base_row("SqlTimestamp", Fixed(12, FixedHash.DATE)),
    _base_row("LocalDate", Fixed(6, FixedHash.LOCAL_DATE), {3: "1.9"}),
    _base_row("LocalTime", Fixed(7, FixedHash.LOCAL_TIME), {3: "1.9"}),
    _base_row("LocalDateTime", Fixed(13, FixedHash.LOCAL_DATE_TIME), {3: "1.9"}),
    _base_row("Instant", Fixed(12, FixedHash.INSTANT)),
    _base_row("BooleanValue", Fixed(1)),
    _base_row("ByteValue", Fixed(1)),
    _base_row("ShortValue", Fixed(2)),
    _base_row("CharValue", Fixed(2)),
    _base_row("IntValue", Fixed(4, FixedHash.INTEGER)),
    _base_row("FloatValue", Fixed(4)),
    _base_row("LongValue", Fixed(8, FixedHash.LONG_VALUE)),
    _base_row("DoubleValue", Fixed(8)),
    _base_row("StringValue", Text(has_null=False, hashable=False)),
    _base_row("NullValue"),
    _base_row("Variant", versions={3: "2.1"}),
    _base_row("Bitmap", Blob(BlobHash.UNKNOWN), {3: "2.3"}),
    Serializer(
        nested_snapshot(_BASE_PACKAGE + "EnumSerializer"),
        "Enum {class}",
        {3: "1.8"},
        constants,
        Fixed(4, FixedHash.IDENTITY),
    ),
    BYTE_ARRAY,
    _array_row("String", Repeat((Text(),), folds=False)),
    _number_array_row("Boolean", 1),
    _number_array_row("Short", 2),
    _number_array_row("Char", 2),
    _number_array_row("Int", 4),
    _number_array_row("Float", 4),
    _number_array_row("Long", 8),
    _number_array_row("Double", 8),
    composite_row(
        _BASE_PACKAGE + "GenericArraySerializerSnapshot",
        "Array",
        {1: "1.8"},
        from_nested(1, lambda element: Repeat((Union((element, _NO_BYTES)),), folds=False)),
        outer_fields("class:utf"),
    ),
    LIST,
    MAP,
    composite_row(
        _BASE_PACKAGE + "SetSerializerSnapshot",
        "Set",
        {1: "2.0"},
        from_nested(1, lambda element: Repeat((Nullable(element),), folds=False)),
    ),
    simple_row(_JAVA_PACKAGE + "Tuple0SerializerSnapshot", "Tuple0", Fixed(1, FixedHash.ZERO)),
    composite_row(
        _JAVA_PACKAGE + "TupleSerializerSnapshot",
        "{class}",
        {2: "1.8"},
        from_all_nested(Sequence),
        outer_fields("class:utf"),
    ),
    composite_row(
        nested_snapshot(_JAVA_PACKAGE + "RowSerializer"),
        "Row",
        {2: "1.8", 3: "1.11", 4: "1.14.3"},
        _row_tree,
        outer_fields("supportsRowKind:flag", since=4),
    ),
    composite_row(
        _JAVA_PACKAGE + "JavaEitherSerializerSnapshot",
        "Either",
        {1: "1.8"},
        from_nested(2, lambda left, right: Union((left, right))),
    ),
    composite_row(
        nested_snapshot(_JAVA_PACKAGE + "NullableSerializer"),
        "Nullable",
        {2: "1.8"},
        _nullable_tree,
        outer_fields("padding:i32"),
    ),
    Serializer(nested_snapshot(_JAVA_PACKAGE + "ValueSerializer"), "Value {class}", {2: "1.8"}, fields("class:utf")),
    Serializer(
        nested_snapshot(_JAVA_PACKAGE + "CopyableValueSerializer"), "Value {class}", {2: "1.8"}, fields("class:utf")
    ),
    POJO,
    Serializer(KRYO_SNAPSHOT, "Kryo {class}", {2: "1.8"}, kryo, _kryo_tree, other_bytes_in_flink_2=True),
)

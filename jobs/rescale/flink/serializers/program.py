"""From a serializer snapshot to the program that finds where a value ends and what its `hashCode` is.

A class that is not here can hold anything: no value of it can be measured. One whose hash is its user's own, or differs
from one JVM to the next, can be measured and not hashed, unless `formulas` says how. A new type is a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.serializers.cep_types import DEWEY_NUMBER, EVENT_ID, buffer_node, lockable, matches, node_id
from rescale.flink.serializers.layouts import COMPOSITE_MAGIC
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot
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
    Product,
    Repeat,
    Sequence,
    Text,
    TypeTree,
    Union,
)

DIVISORS_ADVICE = "a max parallelism that divides the old one needs no hash of keys"

_BASE = "org.apache.flink.api.common.typeutils.base."
_JAVA = "org.apache.flink.api.java.typeutils.runtime."
_STATE = "org.apache.flink.runtime.state."
_STREAMING = "org.apache.flink.streaming."
_WINDOW = "org.apache.flink.streaming.api.windowing.windows."
_TABLE = "org.apache.flink.table.runtime.typeutils."
_TABLE_WINDOW = "org.apache.flink.table.runtime.operators.window."
_SINK = "org.apache.flink.table.runtime.operators.sink."
_VIEW = "org.apache.flink.table.dataview."
_MULTISET = "org.apache.flink.table.runtime.sequencedmultisetstate.linked."
_SCALA, _SCALA_OF_TABLES = "org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils."
_CEP = "org.apache.flink.cep.nfa."
_SHARED_BUFFER = _CEP + "sharedbuffer."

_NOTHING = Fixed(0)

_MOST_COMPACT_DECIMAL, _MOST_COMPACT_TIMESTAMP = 18, 3
"""`DecimalData.MAX_COMPACT_PRECISION`, `TimestampData.isCompact`."""

_ROW_VERSION_WITH_KIND, _ROW_VERSION_WITH_KIND_FLAG = 3, 4


@dataclass(frozen=True)
class Program:
    """What a serializer writes. `name` is the type's, as people call it."""

    name: str
    tree: TypeTree

    @property
    def fixed_length(self) -> int | None:
        """What the serializer's `getLength` says, None if that is negative: it need not be the number of bytes.

        A composite key is ambiguous, and holds lengths for that, when this is None for both key and namespace.
        """
        return self.tree.length

    @property
    def hashable(self) -> bool:
        return self.tree.hashable


def compile_program(snapshot: SerializerSnapshot) -> Program:
    """Raises `UnsupportedError` if there is a class in the snapshot whose values cannot be measured.

    `SnapshotError` where a class holds another number of others than it can.
    """
    return Program(type_name(snapshot), _tree(snapshot))


def _tree(snapshot: SerializerSnapshot) -> TypeTree:
    if not snapshot.values(UNKNOWN):
        if snapshot.class_name in _SIMPLE:
            return _SIMPLE[snapshot.class_name]
        if snapshot.class_name in _COMPOSITE:
            return _COMPOSITE[snapshot.class_name](snapshot)
    raise UnsupportedError(
        f"where a value ends that was written for {snapshot.class_name} ({type_name(snapshot)}) is not known",
        advice=DIVISORS_ADVICE,
    )


def _trees(snapshot: SerializerSnapshot) -> tuple[TypeTree, ...]:
    return tuple(map(_tree, snapshot.nested))


def _exactly(number: int, snapshot: SerializerSnapshot) -> tuple[TypeTree, ...]:
    """The trees of as many nested snapshots as the class has; Flink trusts that they are there."""
    if len(snapshot.nested) != number:
        raise SnapshotError(
            f"a serializer snapshot does not hold what its class does: {type_name(snapshot)}",
            expected=f"{number} serializers in it",
            found=len(snapshot.nested),
        )
    return _trees(snapshot)


def _tuple(snapshot: SerializerSnapshot) -> TypeTree:
    return Sequence(_trees(snapshot))


def _inner(snapshot: SerializerSnapshot) -> TypeTree:
    (inner,) = _exactly(1, snapshot)
    return inner


def _set(snapshot: SerializerSnapshot) -> TypeTree:
    (element,) = _exactly(1, snapshot)
    return Repeat((Nullable(element),), folds=False)


def _array(snapshot: SerializerSnapshot) -> TypeTree:
    """Of objects, each behind a flag that says whether it is there."""
    (element,) = _exactly(1, snapshot)
    return Repeat((Union(element, _NOTHING),), folds=False)


def _numbers(size: int) -> TypeTree:
    return Repeat((Fixed(size),), folds=False)


def _stream_element(snapshot: SerializerSnapshot) -> TypeTree:
    """As state holds them: records, behind a tag that is 0 where a timestamp follows, and 1 where none does."""
    (element,) = _exactly(1, snapshot)
    return Union(element, Sequence((Fixed(8), element)))


def _co_grouped(snapshot: SerializerSnapshot) -> TypeTree:
    """What a window holds of two streams: an element of the one behind a 1, one of the other behind a 2."""
    one, two = _exactly(2, snapshot)
    return Union(one, two, right_tag=2)


def _buffer_entry(snapshot: SerializerSnapshot) -> TypeTree:
    (element,) = _exactly(1, snapshot)
    return Sequence((Fixed(1), element))


def _external(snapshot: SerializerSnapshot) -> TypeTree:
    """The bytes are those of the internal data structure; a key's hash would be that of the other one."""
    return Sequence((_NOTHING, _inner(snapshot)))


def _decimal(snapshot: SerializerSnapshot) -> TypeTree:
    (precision,) = snapshot.values("precision")
    return Fixed(8) if int(precision) <= _MOST_COMPACT_DECIMAL else Blob(BlobHash.UNKNOWN)


def _timestamp(snapshot: SerializerSnapshot) -> TypeTree:
    (precision,) = snapshot.values("precision")
    return Fixed(8 if int(precision) <= _MOST_COMPACT_TIMESTAMP else 12)


def _blob(_: SerializerSnapshot) -> TypeTree:
    return Blob(BlobHash.UNKNOWN)


def _nfa_state(snapshot: SerializerSnapshot) -> TypeTree:
    version, node, event = _exactly(3, snapshot)
    timed = snapshot.values("supportsPreviousTimestamp") == (str(True),)
    return matches(version, node, event, has_previous_time=timed)


def _node_id(snapshot: SerializerSnapshot) -> TypeTree:
    return node_id(_inner(snapshot))


def _lockable(snapshot: SerializerSnapshot) -> TypeTree:
    return lockable(_inner(snapshot))


def _buffer_node(snapshot: SerializerSnapshot) -> TypeTree:
    return buffer_node(_inner(snapshot))


def _case_class(snapshot: SerializerSnapshot) -> TypeTree:
    return Product(tuple(map(_scala, _trees(snapshot))))


def _scala(tree: TypeTree) -> TypeTree:
    """The tree where Scala's `##` hashes its value: equal numbers alike, of whatever class."""
    match tree:
        case Fixed(size, FixedHash.LONG):
            return Fixed(size, FixedHash.SCALA_LONG)
        case Fixed(size, FixedHash.FLOAT | FixedHash.DOUBLE):
            return Fixed(size)
        case Nullable(inner, padding):
            return Nullable(_scala(inner), padding)
    return tree


def _list(snapshot: SerializerSnapshot) -> TypeTree:
    return Repeat(_exactly(1, snapshot))


def _map(snapshot: SerializerSnapshot) -> TypeTree:
    key, value = _exactly(2, snapshot)
    return Repeat((key, Nullable(value)), folds=False)


def _either(snapshot: SerializerSnapshot) -> TypeTree:
    left, right = _exactly(2, snapshot)
    return Union(left, right)


def _nullable(snapshot: SerializerSnapshot) -> TypeTree:
    (inner,) = _exactly(1, snapshot)
    (padding,) = snapshot.values("padding")
    return Nullable(inner, int(padding))


def _row(snapshot: SerializerSnapshot) -> TypeTree:
    return Masked(tuple(map(_deep, _trees(snapshot))), _has_kind(snapshot))


def _deep(tree: TypeTree) -> TypeTree:
    """The tree where `RowUtils` hashes its value."""
    match tree:
        case Repeat((element,), folds=True):
            return Repeat((_deep(element),))
        case Nullable(inner, padding):
            return Nullable(_deep(inner), padding)
        case Blob(BlobHash.UNKNOWN):
            return Deep(Blob(BlobHash.ARRAY))
    return Deep(tree)


def _has_kind(snapshot: SerializerSnapshot) -> bool:
    """Whether rows were written with their kind, which old snapshots do not say."""
    said = snapshot.values("supportsRowKind")
    reader = ByteReader(snapshot.body)
    wrapped = reader.remaining >= 8 and reader.i32() == COMPOSITE_MAGIC
    version = reader.i32() if wrapped else snapshot.version
    if version >= _ROW_VERSION_WITH_KIND_FLAG:
        return said == (str(True),)
    return version == _ROW_VERSION_WITH_KIND


def _pojo(snapshot: SerializerSnapshot) -> TypeTree:
    names, registered = snapshot.values("field"), snapshot.values("registered subclass")
    if len(snapshot.nested) < len(names) + len(registered):
        raise UnsupportedError(
            f"the fields of {type_name(snapshot)} are not all known: their snapshots are missing",
            advice=DIVISORS_ADVICE,
        )
    (class_name,) = snapshot.values("class")
    fields = tuple(map(_tree, snapshot.nested[: len(names)]))
    return Flagged(class_name, names, tuple(map(_by_content, fields)))


def _by_content(field: TypeTree) -> TypeTree:
    """An array in an object: a `hashCode` that takes it in and is good for a key calls `Arrays.hashCode`."""
    return Blob(BlobHash.ARRAY) if field == Blob(BlobHash.UNKNOWN) else field


def _base(kind: str) -> str:
    return f"{_BASE}{kind}Serializer${kind}SerializerSnapshot"


_SIMPLE: dict[str, TypeTree] = {
    **{
        _base(kind): Fixed(size, rule)
        for kind, size, rule in (
            ("Int", 4, FixedHash.INTEGER),
            ("Long", 8, FixedHash.LONG),
            ("Short", 2, FixedHash.INTEGER),
            ("Byte", 1, FixedHash.INTEGER),
            ("Char", 2, FixedHash.CHARACTER),
            ("Boolean", 1, FixedHash.BOOLEAN),
            ("Float", 4, FixedHash.FLOAT),
            ("Double", 8, FixedHash.DOUBLE),
            ("Date", 8, FixedHash.DATE),
            ("SqlDate", 8, FixedHash.DATE),
            ("SqlTime", 8, FixedHash.DATE),
            ("SqlTimestamp", 12, FixedHash.DATE),
            ("LocalDate", 6, FixedHash.LOCAL_DATE),
            ("LocalTime", 7, FixedHash.LOCAL_TIME),
            ("LocalDateTime", 13, FixedHash.LOCAL_DATE_TIME),
            ("Instant", 12, FixedHash.INSTANT),
            ("IntValue", 4, FixedHash.INTEGER),
            ("LongValue", 8, FixedHash.LONG_VALUE),
        )
    },
    **{_base(f"{kind}Value"): Fixed(size) for kind, size in (("Short", 2), ("Byte", 1), ("Char", 2), ("Boolean", 1))},
    **{_base(f"{kind}Value"): Fixed(size) for kind, size in (("Float", 4), ("Double", 8))},
    _base("Void"): Fixed(1),
    _base("Enum"): Fixed(4, FixedHash.IDENTITY),
    _base("String"): Text(),
    _base("StringValue"): Text(has_null=False, hashable=False),
    _base("BigInt"): Number(scaled=False),
    _base("BigDec"): Number(scaled=True),
    f"{_BASE}array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot": Blob(BlobHash.UNKNOWN),
    f"{_BASE}array.StringArraySerializer$StringArraySerializerSnapshot": Repeat((Text(),), folds=False),
    **{
        f"{_BASE}array.{kind}PrimitiveArraySerializer${kind}PrimitiveArraySerializerSnapshot": _numbers(size)
        for kind, size in (
            *(("Boolean", 1), ("Short", 2), ("Char", 2), ("Int", 4)),
            *(("Float", 4), ("Long", 8), ("Double", 8)),
        )
    },
    _base("Bitmap"): Blob(BlobHash.UNKNOWN),
    _TABLE + "StringDataSerializer$StringDataSerializerSnapshot": Blob(BlobHash.UNKNOWN),
    _TABLE + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot": Blob(BlobHash.BINARY_ROW),
    _TABLE + "RowDataSerializer$RowDataSerializerSnapshot": Blob(BlobHash.BINARY_ROW),
    _JAVA + "Tuple0SerializerSnapshot": Fixed(1, FixedHash.ZERO),
    _STATE + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot": Fixed(1, declared=0),
    _WINDOW + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": Fixed(16),
    _WINDOW + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": Fixed(1),
    _TABLE_WINDOW + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": Fixed(16),
    _TABLE_WINDOW + "CountWindow$Serializer$CountWindowSerializerSnapshot": Fixed(8),
    _TABLE_WINDOW + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": Fixed(1),
    _SINK + "SortedLongSerializer$SortedLongSerializerSnapshot": Fixed(8),
    _SHARED_BUFFER + "EventId$EventIdSerializer$EventIdSerializerSnapshot": EVENT_ID,
    _CEP + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot": DEWEY_NUMBER,
}

_COMPOSITE: dict[str, Callable[[SerializerSnapshot], TypeTree]] = {
    _BASE + "ListSerializerSnapshot": _list,
    _STATE + "ArrayListSerializerSnapshot": _list,
    _STATE + "ttl.TtlStateFactory$TtlSerializerSnapshot": _tuple,
    _STATE + "v2.ttl.TtlStateFactory$TtlSerializerSnapshot": _tuple,
    _STATE + "ttl.TtlAwareSerializerSnapshot": _inner,
    _BASE + "MapSerializerSnapshot": _map,
    _BASE + "SetSerializerSnapshot": _set,
    _BASE + "GenericArraySerializerSnapshot": _array,
    _STREAMING + "runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot": _stream_element,
    _STREAMING + "api.datastream.CoGroupedStreams$UnionSerializerSnapshot": _co_grouped,
    _STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot": _buffer_entry,
    _TABLE + "ExternalSerializer$ExternalSerializerSnapshot": _external,
    _TABLE + "DecimalDataSerializer$DecimalSerializerSnapshot": _decimal,
    _TABLE + "TimestampDataSerializer$TimestampDataSerializerSnapshot": _timestamp,
    _TABLE + "ArrayDataSerializer$ArrayDataSerializerSnapshot": _blob,
    _TABLE + "MapDataSerializer$MapDataSerializerSnapshot": _blob,
    _TABLE + "RawValueDataSerializer$RawValueDataSerializerSnapshot": _blob,
    _TABLE + "SortedMapSerializerSnapshot": _map,
    _MULTISET + "MetaSqnInfoSerializer$MetaSqnInfoSerializerSnapshot": _tuple,
    _MULTISET + "RowSqnInfoSerializer$RowSqnInfoSerializerSnapshot": _tuple,
    _MULTISET + "NodeSerializer$NodeSerializerSnapshot": _tuple,
    _MULTISET + "RowDataKeySerializerSnapshot": _inner,
    _VIEW + "ListViewSerializerSnapshot": _inner,
    _VIEW + "MapViewSerializerSnapshot": _inner,
    _JAVA + "TupleSerializerSnapshot": _tuple,
    _JAVA + "RowSerializer$RowSerializerSnapshot": _row,
    _JAVA + "JavaEitherSerializerSnapshot": _either,
    _JAVA + "NullableSerializer$NullableSerializerSnapshot": _nullable,
    _JAVA + "PojoSerializerSnapshot": _pojo,
    **{
        f"{package}{kind}CaseClassSerializerSnapshot": _case_class
        for package in (_SCALA, _SCALA_OF_TABLES)
        for kind in ("Scala", "Tuple2")
    },
    _CEP + "NFAStateSerializerSnapshot": _nfa_state,
    _SHARED_BUFFER + "NodeId$NodeIdSerializer$NodeIdSerializerSnapshot": _node_id,
    _SHARED_BUFFER + "LockableTypeSerializerSnapshot": _lockable,
    _SHARED_BUFFER + "SharedBufferNodeSerializerSnapshotV2": _buffer_node,
    _SHARED_BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot": _tuple,
}

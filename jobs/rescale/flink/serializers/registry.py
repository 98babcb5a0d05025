"""The snapshot classes that are known: layout and name of each. A new type is a row."""

from __future__ import annotations

from typing import NamedTuple

from rescale.flink.serializers.layouts import (
    Layout,
    avro,
    composite,
    constants,
    fields,
    kryo,
    outer_fields,
    pojo,
    row_data,
    scala_constants,
    simple,
    sorted_map,
)

_BASE = "org.apache.flink.api.common.typeutils.base."
_JAVA = "org.apache.flink.api.java.typeutils.runtime."
_STATE = "org.apache.flink.runtime.state."
_STREAMING = "org.apache.flink.streaming."
_WINDOW = _STREAMING + "api.windowing.windows."
_SINK = _STREAMING + "api.functions.sink."
_TABLE_RUNTIME = "org.apache.flink.table.runtime."
_TABLE = _TABLE_RUNTIME + "typeutils."
_TABLE_WINDOW = _TABLE_RUNTIME + "operators.window."
_MULTISET = _TABLE_RUNTIME + "sequencedmultisetstate.linked."
_VIEW = "org.apache.flink.table.dataview."
_SCALA = "org.apache.flink.api.scala.typeutils."
_SCALA_OF_TABLES = "org.apache.flink.table.api.typeutils."
"""Where Flink 2 has all that Flink 1 has in the package above (`flink-table-api-scala`)."""
_CEP = "org.apache.flink.cep.nfa."
_SHARED_BUFFER = _CEP + "sharedbuffer."


class Known(NamedTuple):
    """`name` is what people call the type; `{class}` stands for the attribute, nested types follow in brackets.

    `versions` are the versions of the snapshot that the layout knows.
    """

    layout: Layout
    name: str
    versions: tuple[int, ...]


_PRIMITIVES = ("Boolean", "Byte", "Char", "Double", "Float", "Int", "Long", "Short")
_SIMPLE_VERSIONS = (2, 3)
_COMPOSITE_VERSIONS = (1, 2, 3)

_SIMPLE = {
    **{
        f"{_BASE}{kind}Serializer${kind}SerializerSnapshot": kind
        for kind in (
            *_PRIMITIVES,
            *("String", "BigInt", "BigDec", "Void", "Variant", "Bitmap"),
            *("Date", "SqlDate", "SqlTime", "SqlTimestamp", "LocalDate", "LocalTime", "LocalDateTime", "Instant"),
            *(f"{kind}Value" for kind in (*_PRIMITIVES, "String", "Null")),
        )
    },
    **{
        f"{_BASE}array.{kind}ArraySerializer${kind}ArraySerializerSnapshot": f"{kind.removesuffix('Primitive')}[]"
        for kind in ("String", *(f"{kind}Primitive" for kind in _PRIMITIVES))
    },
    _STATE + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot": "VoidNamespace",
    _STATE + "JavaSerializer$JavaSerializerSnapshot": "Java object",
    _WINDOW + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": "TimeWindow",
    _WINDOW + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": "GlobalWindow",
    _TABLE_WINDOW + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": "TimeWindow",
    _TABLE_WINDOW + "CountWindow$Serializer$CountWindowSerializerSnapshot": "CountWindow",
    _TABLE_WINDOW + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": "GlobalWindow",
    _JAVA + "Tuple0SerializerSnapshot": "Tuple0",
    _TABLE + "StringDataSerializer$StringDataSerializerSnapshot": "StringData",
    _TABLE_RUNTIME + "operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot": "SortedLong",
    _VIEW + "NullSerializer$NullSerializerSnapshot": "Null",
    _STREAMING + "api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot": "Byte[]",
    _SCALA + "NothingSerializerSnapshot": "Nothing",
    _SCALA + "UnitSerializer$UnitSerializerSnapshot": "Unit",
    _SHARED_BUFFER + "EventId$EventIdSerializer$EventIdSerializerSnapshot": "EventId",
    _CEP + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot": "DeweyNumber",
}

_COMPOSITE = {
    _BASE + "ListSerializerSnapshot": "List",
    _BASE + "SetSerializerSnapshot": "Set",
    _BASE + "MapSerializerSnapshot": "Map",
    _JAVA + "JavaEitherSerializerSnapshot": "Either",
    _STATE + "ArrayListSerializerSnapshot": "List",
    _STATE + "ttl.TtlStateFactory$TtlSerializerSnapshot": "TTL",
    _STATE + "v2.ttl.TtlStateFactory$TtlSerializerSnapshot": "TTL",
    _STREAMING + "api.operators.TimerSerializerSnapshot": "Timer",
    _STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot": "BufferEntry",
    _STREAMING + "api.datastream.CoGroupedStreams$UnionSerializerSnapshot": "Union",
    _STREAMING + "runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot": "StreamElement",
    _TABLE + "RawValueDataSerializer$RawValueDataSerializerSnapshot": "RawValueData",
    _TABLE + "WindowKeySerializer$WindowKeySerializerSnapshot": "WindowKey",
    _MULTISET + "MetaSqnInfoSerializer$MetaSqnInfoSerializerSnapshot": "MetaSqnInfo",
    _MULTISET + "RowSqnInfoSerializer$RowSqnInfoSerializerSnapshot": "RowSqnInfo",
    _MULTISET + "NodeSerializer$NodeSerializerSnapshot": "Node",
    _VIEW + "NullAwareMapSerializerSnapshot": "Map",
    _VIEW + "MapViewSerializerSnapshot": "MapView",
    _VIEW + "ListViewSerializerSnapshot": "ListView",
    _SCALA + "ScalaOptionSerializerSnapshot": "Option",
    _SCALA + "ScalaEitherSerializerSnapshot": "Either",
    _SCALA + "ScalaTrySerializerSnapshot": "Try",
    _SHARED_BUFFER + "NodeId$NodeIdSerializer$NodeIdSerializerSnapshot": "NodeId",
    _SHARED_BUFFER + "LockableTypeSerializerSnapshot": "Lockable",
    _SHARED_BUFFER + "SharedBufferNodeSerializerSnapshotV2": "SharedBufferNode",
    _SHARED_BUFFER + "SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot": (
        "SharedBufferNode"
    ),
    _SHARED_BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot": (
        "SharedBufferEdge"
    ),
}

_COMPOSITE_WITH_OUTER_BODY = {
    _BASE + "GenericArraySerializerSnapshot": ("Array", outer_fields("class:utf")),
    _JAVA + "TupleSerializerSnapshot": ("{class}", outer_fields("class:utf")),
    _JAVA + "RowSerializer$RowSerializerSnapshot": ("Row", outer_fields("supportsRowKind:flag", since=4)),
    _JAVA + "NullableSerializer$NullableSerializerSnapshot": ("Nullable", outer_fields("padding:i32")),
    **{
        f"{_SINK}{legacy}TwoPhaseCommitSinkFunction$StateSerializerSnapshot": (
            "SinkState",
            outer_fields("supportsNullTransaction:flag", since=3),
        )
        for legacy in ("", "legacy.")
    },
    _TABLE + "ExternalSerializer$ExternalSerializerSnapshot": (
        "External",
        outer_fields("type:java", "isInternalInput:flag"),
    ),
    _TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot": (
        "LinkedList",
        outer_fields("hasNullMask:flag", since=2),
    ),
    _SCALA + "ScalaCaseClassSerializerSnapshot": ("{class}", outer_fields("class:utf")),
    _SCALA + "Tuple2CaseClassSerializerSnapshot": ("{class}", outer_fields("class:utf")),
    _SCALA + "TraversableSerializerSnapshot": ("Traversable", outer_fields("cbfCode:utf")),
    _CEP + "NFAStateSerializerSnapshot": ("NFAState", outer_fields("supportsPreviousTimestamp:flag", since=2)),
}

_OTHERS = {
    _BASE + "EnumSerializer$EnumSerializerSnapshot": Known(constants, "Enum {class}", (3,)),
    _JAVA + "ValueSerializer$ValueSerializerSnapshot": Known(fields("class:utf"), "Value {class}", (2,)),
    _JAVA + "CopyableValueSerializer$CopyableValueSerializerSnapshot": Known(
        fields("class:utf"), "Value {class}", (2,)
    ),
    _JAVA + "PojoSerializerSnapshot": Known(pojo, "POJO {class}", (2,)),
    _JAVA + "kryo.KryoSerializerSnapshot": Known(kryo, "Kryo {class}", (2,)),
    _STATE + "ttl.TtlAwareSerializerSnapshot": Known(fields("isTtlEnabled:flag", "inner:snapshot"), "TTL aware", (1,)),
    _TABLE + "RowDataSerializer$RowDataSerializerSnapshot": Known(row_data, "RowData", (3,)),
    _TABLE + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot": Known(
        fields("numFields:i32"), "BinaryRowData", (3,)
    ),
    _TABLE + "DecimalDataSerializer$DecimalSerializerSnapshot": Known(
        fields("precision:i32", "scale:i32"), "DecimalData({precision}, {scale})", (3,)
    ),
    _TABLE + "TimestampDataSerializer$TimestampDataSerializerSnapshot": Known(
        fields("precision:i32"), "TimestampData({precision})", (1,)
    ),
    _TABLE + "ArrayDataSerializer$ArrayDataSerializerSnapshot": Known(
        fields("type:java", "serializer:java"), "ArrayData", (3,)
    ),
    _TABLE + "MapDataSerializer$MapDataSerializerSnapshot": Known(
        fields("key type:java", "type:java", "key serializer:java", "serializer:java"), "MapData", (3,)
    ),
    _TABLE + "SortedMapSerializerSnapshot": Known(sorted_map, "SortedMap", (3,)),
    _MULTISET + "RowDataKeySerializerSnapshot": Known(
        fields("equaliser:blob", "hashFunction:blob", "inner:snapshot"), "RowDataKey", (0,)
    ),
    _SCALA + "ScalaEnumSerializerSnapshot": Known(scala_constants, "Enum {class}", (2, 3)),
    "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot": Known(avro, "Avro {class}", (2, 3)),
}

_TYPES: dict[str, Known] = {
    **{class_name: Known(simple, name, _SIMPLE_VERSIONS) for class_name, name in _SIMPLE.items()},
    **{class_name: Known(composite(), name, _COMPOSITE_VERSIONS) for class_name, name in _COMPOSITE.items()},
    **{
        class_name: Known(composite(outer), name, _COMPOSITE_VERSIONS)
        for class_name, (name, outer) in _COMPOSITE_WITH_OUTER_BODY.items()
    },
    **_OTHERS,
}

KNOWN_TYPES: dict[str, Known] = {
    **_TYPES,
    **{
        _SCALA_OF_TABLES + class_name.removeprefix(_SCALA): known
        for class_name, known in _TYPES.items()
        if class_name.startswith(_SCALA)
    },
}
"""By the snapshot's class."""


def short_class_name(name: str) -> str:
    """A Java class without its package: people recognise `Tuple2`, and their own classes in full."""
    return name.rpartition(".")[2] if name.startswith(("org.apache.flink.", "scala.")) else name

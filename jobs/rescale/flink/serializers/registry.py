"""The snapshot classes that are known: layout and name of each. A new type is a row."""

from __future__ import annotations

from typing import NamedTuple

from rescale.flink.serializers.layouts import (
    Layout,
    composite,
    constants,
    fields,
    java_objects,
    kryo,
    outer_external,
    outer_fields,
    outer_flag,
    pojo,
    row_data,
    scala_constants,
    simple,
    sorted_map,
    ttl_aware,
)

_BASE = "org.apache.flink.api.common.typeutils.base."
_JAVA = "org.apache.flink.api.java.typeutils.runtime."
_TABLE = "org.apache.flink.table.runtime.typeutils."
_VIEW = "org.apache.flink.table.dataview."
_SCALA = "org.apache.flink.api.scala.typeutils."
_WINDOW = "org.apache.flink.streaming.api.windowing.windows."
_TABLE_WINDOW = "org.apache.flink.table.runtime.operators.window."
_CEP = "org.apache.flink.cep.nfa."
_SHARED_BUFFER = _CEP + "sharedbuffer."


class Row(NamedTuple):
    """`name` is what people call the type; `{class}` stands for the attribute, nested types follow in brackets."""

    layout: Layout
    name: str


_SIMPLE = {
    **{
        f"{_BASE}{kind}Serializer${kind}SerializerSnapshot": kind
        for kind in [
            "Int",
            "Long",
            "Short",
            "Byte",
            "Boolean",
            "Char",
            "Float",
            "Double",
            "String",
            "BigInt",
            "BigDec",
            "Date",
            "SqlDate",
            "SqlTime",
            "SqlTimestamp",
            "LocalDate",
            "LocalTime",
            "LocalDateTime",
            "Instant",
            "Void",
            "IntValue",
            "LongValue",
            "ShortValue",
            "ByteValue",
            "BooleanValue",
            "CharValue",
            "FloatValue",
            "DoubleValue",
            "StringValue",
            "NullValue",
            "Variant",
            "Bitmap",
        ]
    },
    **{
        f"{_BASE}array.{kind}ArraySerializer${kind}ArraySerializerSnapshot": f"{kind.removesuffix('Primitive')}[]"
        for kind in (
            "String",
            *(f"{p}Primitive" for p in ["Byte", "Boolean", "Char", "Short", "Int", "Long", "Float", "Double"]),
        )
    },
    "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot": "VoidNamespace",
    "org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot": "Java object",
    _WINDOW + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": "TimeWindow",
    _WINDOW + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": "GlobalWindow",
    _TABLE_WINDOW + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": "TimeWindow",
    _TABLE_WINDOW + "CountWindow$Serializer$CountWindowSerializerSnapshot": "CountWindow",
    _TABLE_WINDOW + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": "GlobalWindow",
    _JAVA + "Tuple0SerializerSnapshot": "Tuple0",
    _TABLE + "StringDataSerializer$StringDataSerializerSnapshot": "StringData",
    _VIEW + "NullSerializer$NullSerializerSnapshot": "Null",
    "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot": "Byte[]",
    _SHARED_BUFFER + "EventId$EventIdSerializer$EventIdSerializerSnapshot": "EventId",
    _SHARED_BUFFER + "NodeId$NodeIdSerializer$NodeIdSerializerSnapshot": "NodeId",
    _CEP + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot": "DeweyNumber",
}

ROWS: dict[str, Row] = {
    **{class_name: Row(simple, name) for class_name, name in _SIMPLE.items()},
    _BASE + "EnumSerializer$EnumSerializerSnapshot": Row(constants, "Enum {class}"),
    _BASE + "ListSerializerSnapshot": Row(composite(), "List"),
    _BASE + "SetSerializerSnapshot": Row(composite(), "Set"),
    "org.apache.flink.runtime.state.ArrayListSerializerSnapshot": Row(composite(), "List"),
    _BASE + "MapSerializerSnapshot": Row(composite(), "Map"),
    _VIEW + "NullAwareMapSerializerSnapshot": Row(composite(), "Map"),
    _BASE + "GenericArraySerializerSnapshot": Row(composite(outer_fields("class:utf")), "Array"),
    _JAVA + "TupleSerializerSnapshot": Row(composite(outer_fields("class:utf")), "{class}"),
    _JAVA + "RowSerializer$RowSerializerSnapshot": Row(composite(outer_flag("supportsRowKind", since=4)), "Row"),
    _JAVA + "JavaEitherSerializerSnapshot": Row(composite(), "Either"),
    _JAVA + "NullableSerializer$NullableSerializerSnapshot": Row(composite(outer_fields("padding:i32")), "Nullable"),
    _JAVA + "ValueSerializer$ValueSerializerSnapshot": Row(fields("class:utf"), "Value {class}"),
    _JAVA + "CopyableValueSerializer$CopyableValueSerializerSnapshot": Row(fields("class:utf"), "Value {class}"),
    _JAVA + "PojoSerializerSnapshot": Row(pojo, "POJO {class}"),
    _JAVA + "kryo.KryoSerializerSnapshot": Row(kryo, "Kryo {class}"),
    "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot": Row(composite(), "TTL"),
    "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot": Row(composite(), "TTL"),
    "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot": Row(ttl_aware, "TTL aware"),
    "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot": Row(composite(), "Timer"),
    "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot": Row(
        composite(), "StreamElement"
    ),
    "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot": Row(composite(), "Union"),
    "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot": Row(
        composite(), "BufferEntry"
    ),
    **{
        f"org.apache.flink.streaming.api.functions.sink.{legacy}TwoPhaseCommitSinkFunction$StateSerializerSnapshot": Row(
            composite(outer_flag("supportsNullTransaction", since=3)), "SinkState"
        )
        for legacy in ("", "legacy.")
    },
    _TABLE + "RowDataSerializer$RowDataSerializerSnapshot": Row(row_data, "RowData"),
    _TABLE + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot": Row(fields("numFields:i32"), "BinaryRowData"),
    _TABLE + "DecimalDataSerializer$DecimalSerializerSnapshot": Row(
        fields("precision:i32", "scale:i32"), "DecimalData({precision}, {scale})"
    ),
    _TABLE + "TimestampDataSerializer$TimestampDataSerializerSnapshot": Row(
        fields("precision:i32"), "TimestampData({precision})"
    ),
    _TABLE + "ArrayDataSerializer$ArrayDataSerializerSnapshot": Row(java_objects(2), "ArrayData"),
    _TABLE + "MapDataSerializer$MapDataSerializerSnapshot": Row(java_objects(4), "MapData"),
    _TABLE + "ExternalSerializer$ExternalSerializerSnapshot": Row(composite(outer_external), "External"),
    _TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot": Row(
        composite(outer_flag("hasNullMask", since=2)), "LinkedList"
    ),
    _TABLE + "RawValueDataSerializer$RawValueDataSerializerSnapshot": Row(composite(), "RawValueData"),
    _TABLE + "WindowKeySerializer$WindowKeySerializerSnapshot": Row(composite(), "WindowKey"),
    _TABLE + "SortedMapSerializerSnapshot": Row(sorted_map, "SortedMap"),
    _VIEW + "MapViewSerializerSnapshot": Row(composite(), "MapView"),
    _VIEW + "ListViewSerializerSnapshot": Row(composite(), "ListView"),
    _SCALA + "ScalaCaseClassSerializerSnapshot": Row(composite(outer_fields("class:utf")), "{class}"),
    _SCALA + "Tuple2CaseClassSerializerSnapshot": Row(composite(outer_fields("class:utf")), "{class}"),
    _SCALA + "ScalaOptionSerializerSnapshot": Row(composite(), "Option"),
    _SCALA + "TraversableSerializerSnapshot": Row(composite(outer_fields("cbfCode:utf")), "Traversable"),
    _SCALA + "ScalaEnumSerializerSnapshot": Row(scala_constants, "Enum {class}"),
    _CEP + "NFAStateSerializerSnapshot": Row(composite(outer_flag("supportsPreviousTimestamp", since=0)), "NFAState"),
    _SHARED_BUFFER + "Lockable$LockableTypeSerializerSnapshot": Row(composite(), "Lockable"),
    _SHARED_BUFFER + "SharedBufferNodeSerializerSnapshot": Row(composite(), "SharedBufferNode"),
    _SHARED_BUFFER + "SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot": Row(
        composite(), "SharedBufferNode"
    ),
    _SHARED_BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot": Row(
        composite(), "SharedBufferEdge"
    ),
    "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot": Row(
        fields("class:utf", "schema:utf"), "Avro {class}"
    ),
}


def short_class_name(name: str) -> str:
    """A Java class without its package: people recognise `Tuple2`, and their own classes in full."""
    return name.rpartition(".")[2] if name.startswith(("org.apache.flink.", "scala.")) else name

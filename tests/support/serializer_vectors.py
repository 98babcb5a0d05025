"""Test vectors of the serializer table: the snapshots of all versions of a row, and a value with its `hashCode`.

Values and codes are from Flink, or follow from Java's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rescale.flink.serializers.layouts import simple
from rescale.flink.serializers.serializer import Serializer
from support.snapshot_bytes import (
    BASE,
    INT,
    LONG,
    POJO,
    RUNTIME,
    STATE,
    STRING,
    composite,
    i32,
    list_of,
    nested,
    optional_map,
    pojo,
    snapshot,
    utf,
)

STREAMING = "org.apache.flink.streaming."
TABLE = "org.apache.flink.table.runtime."
TYPES = TABLE + "typeutils."
MULTISET = TABLE + "sequencedmultisetstate.linked."
VIEW = "org.apache.flink.table.dataview."
SCALA, SCALA_OF_TABLES = "org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils."
CEP = "org.apache.flink.cep.nfa."
BUFFER = CEP + "sharedbuffer."

JAVA_OBJECT = (
    bytes.fromhex("aced0005")
    + b"\x73\x72"
    + utf("org.apache.flink.table.types.logical.BigIntType")
    + bytes(8)
    + b"\x02\0\0\x78\x70"
)
SERIALIZER = utf("org.apache.flink.Serializer")


@dataclass(frozen=True)
class Vector:
    """Name of a type, and a `value` in hex with its `hashCode` in `code`; both are None if unknown.

    `inside` are the nested snapshots, and `body` has the bytes before them. If the body differs between versions,
    `outer` has the body by version.
    """

    name: str
    value: str | None = None
    code: int | None = None
    inside: tuple[bytes, ...] = ()
    body: bytes = b""
    outer: Mapping[int, bytes] = field(default_factory=dict)

    def snapshots(self, row: Serializer) -> Iterator[bytes]:
        """Yield the snapshot of each version of the row, oldest first."""
        for version in sorted(row.versions):
            if not row.outer_versions:
                body = SERIALIZER if row.layout is simple and version < 3 else self.body
                yield snapshot(row.snapshot, version, self.outer.get(version, body))
            elif version < 3:
                yield snapshot(row.snapshot, version, nested(*self.inside))
            else:
                for outer_version in sorted(row.outer_versions):
                    outer = self.outer.get(outer_version, self.body)
                    yield composite(row.snapshot, *self.inside, outer=outer, outer_version=outer_version)


def within(serializer: str, kind: str = "") -> str:
    """Return the name of a snapshot class that is nested in its serializer."""
    return f"{serializer}${kind or serializer.rpartition('.')[2].rpartition('$')[2]}Snapshot"


def base(kind: str) -> str:
    return within(f"{BASE}{kind}Serializer")


def array(kind: str) -> str:
    return within(f"{BASE}array.{kind}ArraySerializer")


def flagged(*without: int, since: int) -> dict[int, bytes]:
    """Return outer snapshots that have a flag from the version `since` on."""
    return {**dict.fromkeys(without, b""), since: b"\1"}


EVENT_ID = snapshot(within(BUFFER + "EventId$EventIdSerializer"))
NODE_ID = composite(within(BUFFER + "NodeId$NodeIdSerializer"), EVENT_ID)
DEWEY = snapshot(within(CEP + "DeweyNumber$DeweyNumberSerializer"))
EDGE = composite(within(BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer"), NODE_ID, DEWEY)
ROW_DATA = i32(1) + JAVA_OBJECT + nested(LONG)
ROW_OF_LONG = snapshot(within(TYPES + "RowDataSerializer"), 3, ROW_DATA)
NULLABLE_LONG = composite(within(RUNTIME + "NullableSerializer"), LONG, outer=i32(8), outer_version=2)
MAP = composite(BASE + "MapSerializerSnapshot", STRING, INT)
BINARY_ROW, BINARY_ROW_CODE = "0000001800000000000000002a0000000000000068656c6c6f000085", -1109062209
DATE, TIME = "000007e8021d", "0d0e0f075bcd15"

SINK = Vector("SinkState<Int, String>", inside=(INT, STRING), outer=flagged(2, 3, since=4))
CASE_CLASS = Vector("Tuple2<String, Int>", "026100000007", inside=(STRING, INT), body=utf("scala.Tuple2"))

VECTORS: dict[str, Vector] = {
    base("Boolean"): Vector("Boolean", "01", 1231),
    base("Byte"): Vector("Byte", "ff", -1),
    base("Short"): Vector("Short", "ffff", -1),
    base("Char"): Vector("Char", "0041", 65),
    base("Int"): Vector("Int", "fffffff9", -7),
    base("Float"): Vector("Float", "3fc00000", 0x3FC00000),
    base("Long"): Vector("Long", "0000000100000000", 1),
    base("Double"): Vector("Double", "3ff8000000000000", 1073217536),
    base("String"): Vector("String", "0668656c6c6f", 99162322),
    base("BigInt"): Vector("BigInt", "00000006ff00", -256),
    base("BigDec"): Vector("BigDec", "0000000604d200000002", 38256),
    base("Void"): Vector("Void", "00"),
    base("Date"): Vector("Date", "0000000100000000", 1),
    base("SqlDate"): Vector("SqlDate", "0000000100000000", 1),
    base("SqlTime"): Vector("SqlTime", "0000000100000000", 1),
    base("SqlTimestamp"): Vector("SqlTimestamp", "000000010000000000000007", 1),
    base("LocalDate"): Vector("LocalDate", DATE, 4145309),
    base("LocalTime"): Vector("LocalTime", TIME, -1833650110),
    base("LocalDateTime"): Vector("LocalDateTime", DATE + TIME, 4145309 ^ -1833650110),
    base("Instant"): Vector("Instant", "000000006553f100075bcd15", -593638353),
    base("BooleanValue"): Vector("BooleanValue", "01"),
    base("ByteValue"): Vector("ByteValue", "ff"),
    base("ShortValue"): Vector("ShortValue", "ffff"),
    base("CharValue"): Vector("CharValue", "0041"),
    base("IntValue"): Vector("IntValue", "00000007", 7),
    base("FloatValue"): Vector("FloatValue", "3fc00000"),
    base("LongValue"): Vector("LongValue", "0000000100000000", 44),
    base("DoubleValue"): Vector("DoubleValue", "3ff8000000000000"),
    base("StringValue"): Vector("StringValue", "026162"),
    base("NullValue"): Vector("NullValue"),
    base("Variant"): Vector("Variant"),
    base("Bitmap"): Vector("Bitmap", "0000001c3a300000020000000000000001000000180000001a00000001007011"),
    base("Enum"): Vector("Enum com.x.Colour", "00000001", body=utf("com.x.Colour") + i32(2) + utf("RED") + utf("BLUE")),
    array("BytePrimitive"): Vector("Byte[]", "000000020102"),
    array("String"): Vector("String[]", "0000000302610004e401f601fc01"),
    array("BooleanPrimitive"): Vector("Boolean[]", "000000020100"),
    array("ShortPrimitive"): Vector("Short[]", "0000000200010002"),
    array("CharPrimitive"): Vector("Char[]", "00000003006100620063"),
    array("IntPrimitive"): Vector("Int[]", "0000000100000001"),
    array("FloatPrimitive"): Vector("Float[]", "000000013f800000"),
    array("LongPrimitive"): Vector("Long[]", "000000010000000000000001"),
    array("DoublePrimitive"): Vector("Double[]", "00000000"),
    BASE + "GenericArraySerializerSnapshot": Vector(
        "Array<String>", "0000000301026100010262", inside=(STRING,), body=utf("java.lang.String")
    ),
    BASE + "ListSerializerSnapshot": Vector("List<Long>", "000000010000000100000000", 32, (LONG,)),
    BASE + "SetSerializerSnapshot": Vector("Set<String>", "0000000301000261000262", inside=(STRING,)),
    BASE + "MapSerializerSnapshot": Vector("Map<String, Int>", "0000000102610000000001", inside=(STRING, INT)),
    RUNTIME + "Tuple0SerializerSnapshot": Vector("Tuple0", "2a", 0),
    RUNTIME + "TupleSerializerSnapshot": Vector(
        "Tuple2<String, Int>",
        "0668656c6c6f00000007",
        -1220935307,
        (STRING, INT),
        utf("org.apache.flink.api.java.tuple.Tuple2"),
    ),
    within(RUNTIME + "RowSerializer"): Vector(
        "Row<String>", "000668656c6c6f", 99162384, (STRING,), outer=flagged(2, 3, since=4)
    ),
    RUNTIME + "JavaEitherSerializerSnapshot": Vector("Either<Int, String>", "000261", 97, (INT, STRING)),
    within(RUNTIME + "NullableSerializer"): Vector("Nullable<Int>", "0000000007", 7, (INT,), i32(4)),
    within(RUNTIME + "ValueSerializer"): Vector("Value com.x.V", body=utf("com.x.V")),
    within(RUNTIME + "CopyableValueSerializer"): Vector("Value com.x.V", body=utf("com.x.V")),
    POJO: Vector(
        "POJO com.x.P",
        "0200000000070002 61".replace(" ", ""),
        body=pojo({"n": INT, "t": STRING}, name="com.x.P")[len(utf(POJO)) + 4 :],
    ),
    RUNTIME + "kryo.KryoSerializerSnapshot": Vector("Kryo com.x.K", body=utf("com.x.K") + optional_map({}) * 3),
    within(STATE + "VoidNamespaceSerializer"): Vector("VoidNamespace", "00"),
    within(STATE + "JavaSerializer"): Vector("Java object"),
    STATE + "ArrayListSerializerSnapshot": Vector("List<Int>", "0000000100000007", 38, (INT,)),
    **{
        f"{STATE}{package}ttl.TtlStateFactory$TtlSerializerSnapshot": Vector(
            "TTL<String>", "00000000000000070261", inside=(LONG, STRING)
        )
        for package in ("", "v2.")
    },
    STATE + "ttl.TtlAwareSerializerSnapshot": Vector("TTL aware<Int>", "00000007", 7, body=b"\0" + INT),
    STREAMING + "api.windowing.windows.TimeWindow$Serializer$TimeWindowSerializerSnapshot": Vector(
        "TimeWindow", "00" * 16
    ),
    STREAMING + "api.windowing.windows.GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": Vector(
        "GlobalWindow", "00"
    ),
    STREAMING + "api.operators.TimerSerializerSnapshot": Vector("Timer<Long, String>", inside=(LONG, STRING)),
    STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot": Vector(
        "BufferEntry<String>", "010261", inside=(STRING,)
    ),
    STREAMING + "api.datastream.CoGroupedStreams$UnionSerializerSnapshot": Vector(
        "Union<String, Int>", "0200000007", inside=(STRING, INT)
    ),
    within(STREAMING + "runtime.streamrecord.StreamElementSerializer"): Vector(
        "StreamElement<String>", "0000000000000000070261", inside=(STRING,)
    ),
    STREAMING + "api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot": SINK,
    STREAMING + "api.functions.sink.legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot": SINK,
    TABLE + "operators.window.TimeWindow$Serializer$TimeWindowSerializerSnapshot": Vector("TimeWindow", "00" * 16),
    TABLE + "operators.window.CountWindow$Serializer$CountWindowSerializerSnapshot": Vector("CountWindow", "00" * 8),
    TABLE + "operators.window.GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": Vector("GlobalWindow", "00"),
    within(TABLE + "operators.sink.SortedLongSerializer"): Vector("SortedLong", "7ffffffffffffff9"),
    within(TYPES + "StringDataSerializer"): Vector("StringData", "00000006c3a4c3b6c3bc"),
    within(TYPES + "RowDataSerializer"): Vector("RowData<Long>", BINARY_ROW, BINARY_ROW_CODE, body=ROW_DATA),
    within(TYPES + "BinaryRowDataSerializer"): Vector("BinaryRowData", BINARY_ROW, BINARY_ROW_CODE, body=i32(2)),
    within(TYPES + "DecimalDataSerializer", "DecimalSerializer"): Vector(
        "DecimalData(19, 2)", "000000017b", body=i32(19, 2)
    ),
    within(TYPES + "TimestampDataSerializer"): Vector("TimestampData(4)", "000000000000000700000064", body=i32(4)),
    within(TYPES + "ArrayDataSerializer"): Vector(
        "ArrayData", "00000018020000000000000001000000000000000200000000000000", body=JAVA_OBJECT * 2
    ),
    within(TYPES + "MapDataSerializer"): Vector("MapData", "0000000100", body=JAVA_OBJECT * 4),
    within(TYPES + "RawValueDataSerializer"): Vector(
        "RawValueData<String>", "0000000704e401f601fc01", inside=(STRING,)
    ),
    within(TYPES + "ExternalSerializer"): Vector("External<Int>", "00000007", inside=(INT,), body=JAVA_OBJECT + b"\0"),
    within(TYPES + "WindowKeySerializer"): Vector("WindowKey<Int>", inside=(INT,)),
    within(TYPES + "LinkedListSerializer"): Vector("LinkedList<Int>", inside=(INT,), outer=flagged(1, 2, since=3)),
    TYPES + "SortedMapSerializerSnapshot": Vector(
        "SortedMap<String, Int>", "0000000102610000000001", body=JAVA_OBJECT + nested(STRING, INT)
    ),
    within(VIEW + "NullSerializer"): Vector("Null"),
    VIEW + "NullAwareMapSerializerSnapshot": Vector("Map<Int, String>", inside=(INT, STRING)),
    VIEW + "MapViewSerializerSnapshot": Vector("MapView<Map<String, Int>>", "0000000102610000000001", inside=(MAP,)),
    VIEW + "ListViewSerializerSnapshot": Vector(
        "ListView<List<String>>", "0000000202610262", inside=(list_of(STRING),)
    ),
    within(MULTISET + "MetaSqnInfoSerializer"): Vector(
        "MetaSqnInfo<Long, Long>", "00000000000000010000000000000002", inside=(LONG, LONG)
    ),
    within(MULTISET + "RowSqnInfoSerializer"): Vector(
        "RowSqnInfo<Long, Long>", "00000000000000010000000000000002", inside=(LONG, LONG)
    ),
    within(MULTISET + "NodeSerializer"): Vector(
        "Node<RowData<Long>, Long, Nullable<Long>, Nullable<Long>, Nullable<Long>, Long>",
        "00000010" + "00000000000000000700000000000000" + "0000000000000001" + "010000000000000000"
        "000000000000000002" + "010000000000000000" + "0000000000000003",
        inside=(ROW_OF_LONG, LONG, NULLABLE_LONG, NULLABLE_LONG, NULLABLE_LONG, LONG),
    ),
    MULTISET + "RowDataKeySerializerSnapshot": Vector(
        "RowDataKey<RowData<Long>>",
        BINARY_ROW,
        BINARY_ROW_CODE,
        body=i32(3) + b"abc" + i32(1) + b"d" + ROW_OF_LONG,
    ),
    within(BUFFER + "EventId$EventIdSerializer"): Vector("EventId", "000000030000000000000007"),
    within(CEP + "DeweyNumber$DeweyNumberSerializer"): Vector("DeweyNumber", "00000003000000010000000200000003"),
    within(BUFFER + "NodeId$NodeIdSerializer"): Vector(
        "NodeId<EventId>", "01000000030000000000000007067374617274", inside=(EVENT_ID,)
    ),
    BUFFER + "LockableTypeSerializerSnapshot": Vector("Lockable<String>", "000000020261", inside=(STRING,)),
    BUFFER + "SharedBufferNodeSerializerSnapshotV2": Vector(
        "SharedBufferNode<SharedBufferEdge<NodeId<EventId>, DeweyNumber>>",
        "00000001000000000000000003000000010000000200000003",
        inside=(EDGE,),
    ),
    within(BUFFER + "SharedBufferNode$SharedBufferNodeSerializer"): Vector(
        "SharedBufferNode<List<SharedBufferEdge<NodeId<EventId>, DeweyNumber>>>",
        "000000010000000003000000010000000200000003",
        inside=(list_of(EDGE),),
    ),
    within(BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer"): Vector(
        "SharedBufferEdge<NodeId<EventId>, DeweyNumber>", "0000000003000000010000000200000003", inside=(NODE_ID, DEWEY)
    ),
    CEP + "NFAStateSerializerSnapshot": Vector(
        "NFAState<DeweyNumber, NodeId<EventId>, EventId>",
        "00000001" + "06737461727400" + "0000000100000001" + "ff" * 16 + "00" + "00000000",
        inside=(DEWEY, NODE_ID, EVENT_ID),
        outer=flagged(1, since=2),
    ),
    "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot": Vector(
        "Avro com.x.A", outer={2: utf("com.x.A") + utf('"int"'), 3: b"\x08com.x.A" + b'\x06"int"'}
    ),
    within(STREAMING + "api.utils.ByteArrayWrapperSerializer"): Vector("Byte[]"),
    **{
        package + class_name: vector
        for package in (SCALA, SCALA_OF_TABLES)
        for class_name, vector in {
            "NothingSerializerSnapshot": Vector("Nothing"),
            "UnitSerializer$UnitSerializerSnapshot": Vector("Unit"),
            "ScalaOptionSerializerSnapshot": Vector("Option<Int>", inside=(INT,)),
            "ScalaEitherSerializerSnapshot": Vector("Either<Int, String>", inside=(INT, STRING)),
            "ScalaTrySerializerSnapshot": Vector("Try<Int, String>", inside=(INT, STRING)),
            "ScalaEnumSerializerSnapshot": Vector(
                "Enum com.x.Suit", body=utf("com.x.Suit") + i32(1) + utf("Clubs") + i32(4)
            ),
            "ScalaCaseClassSerializerSnapshot": CASE_CLASS,
            "Tuple2CaseClassSerializerSnapshot": CASE_CLASS,
            "TraversableSerializerSnapshot": Vector("Traversable<Int>", inside=(INT,), body=utf("code")),
        }.items()
    },
}
"""Vectors by the class of the snapshot."""

"""Serializer snapshots: where each ends, what it says, and when two say the same."""

from __future__ import annotations

import pickle

import pytest

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import MAX_DEPTH, read_snapshot, read_versioned, type_name, write_versioned
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot, UnknownSerializer
from support.snapshot_bytes import (
    BASE,
    CUSTOM,
    INT,
    LONG,
    POJO,
    RUNTIME,
    STATE,
    STRING,
    VOID_NAMESPACE,
    composite,
    i32,
    list_of,
    nested,
    optional_map,
    parsed,
    pojo,
    simple,
    snapshot,
    utf,
)

TABLE = "org.apache.flink.table.runtime.typeutils."
SCALA_OF_TABLES = "org.apache.flink.table.api.typeutils."
CEP = "org.apache.flink.cep.nfa."
AVRO = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
JAVA_STRING = bytes.fromhex("aced0005") + b"\x74" + utf("anything")
JAVA_OBJECT = (
    bytes.fromhex("aced0005")
    + b"\x73\x72"
    + utf("org.apache.flink.table.types.logical.BigIntType")
    + bytes(8)
    + b"\x02\0\0\x78\x70"
)

TUPLE = composite(
    RUNTIME + "TupleSerializerSnapshot",
    STRING,
    INT,
    outer=utf("org.apache.flink.api.java.tuple.Tuple2"),
    outer_version=2,
)
ROW_DATA = snapshot(
    TABLE + "RowDataSerializer$RowDataSerializerSnapshot", 3, i32(2) + JAVA_OBJECT + JAVA_STRING + nested(LONG, INT)
)
EXAMPLES = {
    "Long": LONG,
    "VoidNamespace": VOID_NAMESPACE,
    "Byte[]": snapshot(BASE + "array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"),
    "String[]": snapshot(BASE + "array.StringArraySerializer$StringArraySerializerSnapshot"),
    "Boolean": snapshot(BASE + "BooleanSerializer$BooleanSerializerSnapshot", 2, utf("a.Class")),
    "TimeWindow": snapshot(
        "org.apache.flink.streaming.api.windowing.windows.TimeWindow$Serializer$TimeWindowSerializerSnapshot"
    ),
    "Enum com.x.Colour": snapshot(
        BASE + "EnumSerializer$EnumSerializerSnapshot", 3, utf("com.x.Colour") + i32(2) + utf("RED") + utf("BLUE")
    ),
    "List<String>": list_of(STRING),
    "Map<String, List<Int>>": composite(BASE + "MapSerializerSnapshot", STRING, list_of(INT)),
    "Tuple2<String, Int>": TUPLE,
    "Array<Int>": composite(BASE + "GenericArraySerializerSnapshot", INT, outer=utf("java.lang.Integer")),
    "Row<Int>": composite(RUNTIME + "RowSerializer$RowSerializerSnapshot", INT, outer=b"\1", outer_version=4),
    "Row<Long>": composite(RUNTIME + "RowSerializer$RowSerializerSnapshot", LONG, outer_version=3),
    "Row<String>": snapshot(RUNTIME + "RowSerializer$RowSerializerSnapshot", 2, nested(STRING)),
    "Nullable<Int>": composite(RUNTIME + "NullableSerializer$NullableSerializerSnapshot", INT, outer=i32(4)),
    "Either<Int, Long>": composite(RUNTIME + "JavaEitherSerializerSnapshot", INT, LONG),
    "Value com.x.V": snapshot(RUNTIME + "ValueSerializer$ValueSerializerSnapshot", 2, utf("com.x.V")),
    "TTL<String>": composite(STATE + "ttl.TtlStateFactory$TtlSerializerSnapshot", LONG, STRING, outer_version=2),
    "TTL aware<Int>": snapshot(STATE + "ttl.TtlAwareSerializerSnapshot", 1, b"\0" + INT),
    "Timer<Long, VoidNamespace>": composite(
        "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot", LONG, VOID_NAMESPACE, outer_version=2
    ),
    "POJO com.example.Order": pojo({"a": INT, "gone": None}, {"com.example.Rush": LONG}),
    "Kryo com.x.K": snapshot(
        RUNTIME + "kryo.KryoSerializerSnapshot",
        2,
        utf("com.x.K")
        + optional_map({"com.x.K": (utf("com.x.K"), utf("com.x.K") + i32(0)), "com.x.L": (None, None)})
        + optional_map({"com.x.M": (utf("com.x.M"), JAVA_OBJECT)})
        + optional_map({}),
    ),
    "RowData<Long, Int>": ROW_DATA,
    "BinaryRowData": snapshot(TABLE + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot", 3, i32(2)),
    "DecimalData(10, 2)": snapshot(TABLE + "DecimalDataSerializer$DecimalSerializerSnapshot", 3, i32(10, 2)),
    "TimestampData(3)": snapshot(TABLE + "TimestampDataSerializer$TimestampDataSerializerSnapshot", 1, i32(3)),
    "ArrayData": snapshot(TABLE + "ArrayDataSerializer$ArrayDataSerializerSnapshot", 3, JAVA_OBJECT * 2),
    "MapData": snapshot(TABLE + "MapDataSerializer$MapDataSerializerSnapshot", 3, JAVA_OBJECT * 4),
    "External<Int>": composite(TABLE + "ExternalSerializer$ExternalSerializerSnapshot", INT, outer=JAVA_OBJECT + b"\1"),
    "LinkedList<Int>": composite(
        TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot", INT, outer=b"\1", outer_version=3
    ),
    "LinkedList<Long>": composite(TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot", LONG),
    "Avro com.x.B": snapshot(AVRO, 3, b"\x08com.x.B" + b'\x06"int"'),
    "Avro com.x.Ö€\U0001f600": snapshot(
        AVRO, 3, b"\x0bcom.x." + bytes.fromhex("d601 ac41 bdb003 80bc03") + b"\xac\x02" + b"s" * 299
    ),
    "SortedMap<Int, Long>": snapshot(TABLE + "SortedMapSerializerSnapshot", 3, JAVA_OBJECT + nested(INT, LONG)),
    "RowDataKey<Int>": snapshot(
        "org.apache.flink.table.runtime.sequencedmultisetstate.linked.RowDataKeySerializerSnapshot",
        0,
        i32(3) + b"abc" + i32(1) + b"d" + INT,
    ),
    "NodeId<EventId>": composite(
        CEP + "sharedbuffer.NodeId$NodeIdSerializer$NodeIdSerializerSnapshot",
        snapshot(CEP + "sharedbuffer.EventId$EventIdSerializer$EventIdSerializerSnapshot"),
    ),
    "Lockable<Int>": composite(CEP + "sharedbuffer.LockableTypeSerializerSnapshot", INT),
    "NFAState<Int>": composite(CEP + "NFAStateSerializerSnapshot", INT, outer=b"\0", outer_version=2),
    "NFAState<Long>": composite(CEP + "NFAStateSerializerSnapshot", LONG, outer_version=1),
    "Enum com.x.Suit": snapshot(
        "org.apache.flink.api.scala.typeutils.ScalaEnumSerializerSnapshot",
        2,
        utf("com.x.Suit") + i32(1) + utf("Clubs") + i32(4),
    ),
    "Enum com.x.Rank": snapshot(
        "org.apache.flink.api.scala.typeutils.ScalaEnumSerializerSnapshot",
        3,
        utf("com.x.Rank") + i32(2) + utf("Ace") + i32(0) + utf("King") + i32(7),
    ),
    "Option<Int>": composite(SCALA_OF_TABLES + "ScalaOptionSerializerSnapshot", INT, outer_version=2),
    "Tuple2<String, Long>": composite(
        SCALA_OF_TABLES + "Tuple2CaseClassSerializerSnapshot", STRING, LONG, outer=utf("scala.Tuple2"), outer_version=2
    ),
    "Enum com.x.Mode": snapshot(
        SCALA_OF_TABLES + "ScalaEnumSerializerSnapshot", 3, utf("com.x.Mode") + i32(1) + utf("UP") + i32(0)
    ),
    "Avro com.x.A": snapshot(
        "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", 2, utf("com.x.A") + utf('{"type":"record"}')
    ),
}


@pytest.mark.parametrize(("name", "data"), EXAMPLES.items(), ids=EXAMPLES)
def test_it_ends_where_it_ends_and_has_a_name(name: str, data: bytes) -> None:
    reader = ByteReader(data + b"what follows")
    found = read_snapshot(reader)
    assert reader.position == len(data)
    assert type_name(found) == name
    assert data.endswith(found.body)


@pytest.mark.parametrize("data", EXAMPLES.values(), ids=EXAMPLES)
def test_cut_anywhere_it_is_damaged(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(SnapshotError) as error:
            read_snapshot(ByteReader(data[:end], "a file"))
        assert error.value.path == "a file"
        assert 0 <= error.value.offset <= end


def test_written_it_is_the_same() -> None:
    data = i32(2) + TUPLE
    out = ByteWriter()
    write_versioned(out, read_versioned(ByteReader(data)))
    assert out.bytes() == data


def test_what_a_pojo_stores() -> None:
    found = parsed(pojo({"a": INT, "b": list_of(STRING)}, {"com.x.Late": LONG}, {"com.x.Told": STRING}))
    assert found.values("class") == ("com.example.Order",)
    assert found.values("field") == ("a", "b")
    assert found.values("registered subclass") == ("com.x.Told",)
    assert [type_name(inner) for inner in found.nested] == ["Int", "List<String>", "String"]
    assert [(name, type_name(inner)) for name, inner in found.subclasses] == [("com.x.Late", "Long")]


def test_enum_constants_keep_their_order() -> None:
    assert parsed(EXAMPLES["Enum com.x.Colour"]).values("constant") == ("RED", "BLUE")


@pytest.mark.parametrize(
    ("data", "class_name"),
    [
        (CUSTOM, "com.example.Money$Snapshot"),
        (list_of(CUSTOM), "com.example.Money$Snapshot"),
        (snapshot(BASE + "ListSerializerSnapshot", 4), BASE + "ListSerializerSnapshot"),
    ],
)
def test_what_is_not_known_is_named(data: bytes, class_name: str) -> None:
    with pytest.raises(UnknownSerializer, match="is not known") as error:
        read_snapshot(ByteReader(data, "a file"))
    assert error.value.class_name == class_name
    assert class_name in error.value.what
    assert error.value.path == "a file"


def test_elsewhere_an_unknown_serializer_is_an_unsupported_one() -> None:
    with pytest.raises(UnknownSerializer) as error:
        read_snapshot(ByteReader(CUSTOM, "a file"))
    copy = pickle.loads(pickle.dumps(error.value))
    assert type(copy) is UnsupportedError
    assert copy.to_json() == error.value.to_json()
    assert copy.exit_code == 3


def test_in_a_frame_what_is_not_known_is_passed_over() -> None:
    found = parsed(pojo({"money": CUSTOM, "monies": list_of(CUSTOM), "n": INT}))
    money, monies, number = found.nested
    assert money.body == b"\1\2\3"
    assert [inner.values(UNKNOWN) for inner in (money, monies)] == [("com.example.Money$Snapshot",)] * 2
    assert type_name(number) == "Int"
    assert type_name(money) == "com.example.Money$Snapshot"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (snapshot("not a class"), "not a serializer snapshot"),
        (snapshot(""), "not a serializer snapshot"),
        (snapshot("com..x"), "not a serializer snapshot"),
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911109, 1)), "not a composite"),
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911108, 1, 1333246, 1, 0)), "not a block of nested"),
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911108, 1, 1333245, 2, 0)), "not a version of nested"),
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911108, 1, 1333245, 1, -1)), "a count"),
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911108, 1, 1333245, 1, 1 << 30)), "a count"),
        (snapshot(POJO, 2, utf("x.Y") + bytes(12)), "not a map of optional entries"),
        (pojo({"a": INT + b"\0"}), "bytes behind a serializer snapshot"),
        (pojo({"a": INT[:-1]}), "ends too early"),
    ],
)
def test_damage_is_named(data: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what) as error:
        read_snapshot(ByteReader(data, "a file"))
    assert error.value.path == "a file"
    assert 0 <= error.value.offset <= len(data)


def test_an_error_in_a_frame_has_its_place_in_the_file() -> None:
    data = pojo({"a": simple("Int"), "b": snapshot("not a class")})
    with pytest.raises(SnapshotError) as error:
        read_snapshot(ByteReader(b"before" + data, position=6))
    assert error.value.offset == 6 + data.index(utf("not a class"))


def test_nesting_has_a_limit() -> None:
    data = INT
    for _ in range(MAX_DEPTH):
        data = list_of(data)
    assert type_name(parsed(data)).startswith("List<List<")
    with pytest.raises(SnapshotError, match="nested too deep"):
        parsed(list_of(data))


def test_another_proxy_version_is_refused() -> None:
    with pytest.raises(SnapshotError, match="unknown form") as error:
        read_versioned(ByteReader(i32(1) + LONG))
    assert error.value.found == "1"


FIELDS: dict[str, bytes | None] = {"a": INT, "b": STRING}
NONE = pojo(FIELDS)
ONE = pojo(FIELDS, {"com.x.A": LONG})
BOTH = pojo(FIELDS, {"com.x.A": LONG, "com.x.B": INT})
TURNED = pojo(FIELDS, {"com.x.B": INT, "com.x.A": LONG})
NAME_ONLY = pojo(FIELDS, {"com.x.A": None})


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [(NONE, NONE), (ONE, NONE), (BOTH, ONE), (BOTH, TURNED), (TURNED, BOTH), (ONE, NAME_ONLY), (CUSTOM, CUSTOM)],
)
def test_a_pojo_covers_one_that_knows_fewer_subclasses(wide: bytes, narrow: bytes) -> None:
    """Also deep inside, where the lengths around it differ too."""
    for wrap in (pojo_field, lambda s: s, list_of, lambda s: pojo_field(list_of(s))):
        assert parsed_in_frame(wrap(wide)).covers(parsed_in_frame(wrap(narrow)))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (NONE, ONE),
        (ONE, BOTH),
        (NAME_ONLY, ONE),
        (ONE, pojo(FIELDS, {"com.x.B": LONG})),
        (ONE, pojo(FIELDS, {"com.x.A": INT})),
        (NONE, pojo({"b": STRING, "a": INT})),
        (NONE, pojo({"a": INT, "b": INT})),
        (NONE, pojo({"a": INT, "b": None})),
        (NONE, pojo(FIELDS, registered={"com.x.A": LONG})),
        (pojo(FIELDS, registered={"com.x.A": LONG}), pojo(FIELDS, registered={"com.x.A": INT})),
        (INT, LONG),
        (CUSTOM, CUSTOM[:-1] + b"\4"),
        (TUPLE, TUPLE.replace(b"Tuple2", b"Tuple3")),
        (ROW_DATA, ROW_DATA.replace(b"anything", b"anyThing")),
    ],
)
def test_any_other_difference_is_one(wide: bytes, narrow: bytes) -> None:
    for wrap in (pojo_field, list_of):
        assert not parsed_in_frame(wrap(wide)).covers(parsed_in_frame(wrap(narrow)))


def pojo_field(inner: bytes) -> bytes:
    return pojo({"outer": inner})


def parsed_in_frame(data: bytes) -> SerializerSnapshot:
    """The snapshot as the field of a POJO, where also unknown ones can be read."""
    return parsed(pojo({"x": data})).nested[0]


@pytest.mark.parametrize(
    ("packed", "what"),
    [(b"\xff\xff\xff\xff\x07", "a length that cannot be"), (b"\xff" * 9, "a packed number without end")],
)
def test_a_damaged_length_of_a_packed_text_is_named(packed: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        read_snapshot(ByteReader(snapshot(AVRO, 3, packed), "header"))

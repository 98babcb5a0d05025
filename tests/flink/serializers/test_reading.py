"""Serializer snapshots: where each ends, what it describes, and when two describe the same serializer."""

from __future__ import annotations

import pickle

import pytest

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import MAX_DEPTH, read_snapshot, read_versioned, type_name, write_versioned
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot, UnknownSerializerError
from rescale.text.errors import SnapshotError, UnsupportedError
from support.serializer_vectors import JAVA_OBJECT
from support.snapshot_bytes import (
    BASE,
    CUSTOM,
    INT,
    LONG,
    POJO,
    RUNTIME,
    STRING,
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

JAVA_STRING = bytes.fromhex("aced0005") + b"\x74" + utf("anything")
TABLE = "org.apache.flink.table.runtime.typeutils."
SCALA_OF_TABLES = "org.apache.flink.table.api.typeutils."
CEP = "org.apache.flink.cep.nfa."
AVRO = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
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
SNAPSHOT_BY_TYPE_NAME = {
    "Map<String, List<Int>>": composite(BASE + "MapSerializerSnapshot", STRING, list_of(INT)),
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
    "Avro com.x.Ö€\U0001f600": snapshot(
        AVRO, 3, b"\x0bcom.x." + bytes.fromhex("d601 ac41 bdb003 80bc03") + b"\xac\x02" + b"s" * 299
    ),
}
"""Snapshots that differ from those in the test vectors."""


@pytest.mark.parametrize(("name", "data"), SNAPSHOT_BY_TYPE_NAME.items(), ids=SNAPSHOT_BY_TYPE_NAME)
def test_snapshot_is_read_to_its_last_byte_and_named(name: str, data: bytes) -> None:
    reader = ByteReader(data + b"what follows")
    serializer = read_snapshot(reader)
    assert reader.position == len(data)
    assert type_name(serializer) == name
    assert data.endswith(serializer.body)


@pytest.mark.parametrize("data", SNAPSHOT_BY_TYPE_NAME.values(), ids=SNAPSHOT_BY_TYPE_NAME)
def test_truncated_snapshot_is_refused(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(SnapshotError) as error:
            read_snapshot(ByteReader(data[:end], "a file"))
        assert error.value.path == "a file"
        assert 0 <= error.value.offset <= end


def test_versioned_snapshot_is_written_back_unchanged() -> None:
    data = i32(2) + TUPLE
    out = ByteWriter()
    write_versioned(out, read_versioned(ByteReader(data)))
    assert out.bytes() == data


def test_pojo_snapshot_has_fields_and_subclasses() -> None:
    serializer = parsed(pojo({"a": INT, "b": list_of(STRING)}, {"com.x.Late": LONG}, {"com.x.Told": STRING}))
    assert serializer.values("class") == ("com.example.Order",)
    assert serializer.values("field") == ("a", "b")
    assert serializer.values("registered subclass") == ("com.x.Told",)
    assert [type_name(inner) for inner in serializer.nested] == ["Int", "List<String>", "String"]
    assert [(name, type_name(inner)) for name, inner in serializer.subclasses] == [("com.x.Late", "Long")]


def test_enum_constants_keep_their_order() -> None:
    colours = utf("com.x.Colour") + i32(2) + utf("RED") + utf("BLUE")
    serializer = parsed(snapshot(BASE + "EnumSerializer$EnumSerializerSnapshot", 3, colours))
    assert serializer.values("constant") == ("RED", "BLUE")


@pytest.mark.parametrize(
    ("data", "class_name"),
    [
        (CUSTOM, "com.example.Money$Snapshot"),
        (list_of(CUSTOM), "com.example.Money$Snapshot"),
        (snapshot(BASE + "ListSerializerSnapshot", 4), BASE + "ListSerializerSnapshot"),
    ],
)
def test_unknown_serializer_is_refused_with_its_class(data: bytes, class_name: str) -> None:
    with pytest.raises(UnknownSerializerError, match="is unknown") as error:
        read_snapshot(ByteReader(data, "a file"))
    assert error.value.class_name == class_name
    assert class_name in error.value.what
    assert error.value.path == "a file"


def test_unknown_serializer_is_pickled_as_an_unsupported_error() -> None:
    with pytest.raises(UnknownSerializerError) as error:
        read_snapshot(ByteReader(CUSTOM, "a file"))
    copy = pickle.loads(pickle.dumps(error.value))
    assert type(copy) is UnsupportedError
    assert copy.document() == error.value.document()
    assert copy.exit_code == 3


def test_unknown_serializer_in_a_frame_is_skipped() -> None:
    serializer = parsed(pojo({"money": CUSTOM, "monies": list_of(CUSTOM), "n": INT}))
    money, monies, number = serializer.nested
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
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911108, 1, 1333245, 2, 0)), "not a known version of nested"),
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911108, 1, 1333245, 1, -1)), "an impossible count"),
        (snapshot(BASE + "ListSerializerSnapshot", 3, i32(911108, 1, 1333245, 1, 1 << 30)), "an impossible count"),
        (snapshot(POJO, 2, utf("x.Y") + bytes(12)), "not a map of optional entries"),
        (pojo({"a": INT + b"\0"}), "bytes after a serializer snapshot"),
        (pojo({"a": INT[:-1]}), "ends too early"),
    ],
)
def test_damaged_snapshot_is_refused_with_its_offset(data: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what) as error:
        read_snapshot(ByteReader(data, "a file"))
    assert error.value.path == "a file"
    assert 0 <= error.value.offset <= len(data)


def test_error_in_a_frame_has_its_offset_in_the_file() -> None:
    data = pojo({"a": simple("Int"), "b": snapshot("not a class")})
    with pytest.raises(SnapshotError) as error:
        read_snapshot(ByteReader(b"before" + data, position=6))
    assert error.value.offset == 6 + data.index(utf("not a class"))


def test_nesting_of_serializers_is_limited() -> None:
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
NO_SUBCLASSES = pojo(FIELDS)
ONE_SUBCLASS = pojo(FIELDS, {"com.x.A": LONG})
TWO_SUBCLASSES = pojo(FIELDS, {"com.x.A": LONG, "com.x.B": INT})
TWO_SUBCLASSES_REVERSED = pojo(FIELDS, {"com.x.B": INT, "com.x.A": LONG})
NAME_ONLY = pojo(FIELDS, {"com.x.A": None})


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (NO_SUBCLASSES, NO_SUBCLASSES),
        (ONE_SUBCLASS, NO_SUBCLASSES),
        (TWO_SUBCLASSES, ONE_SUBCLASS),
        (TWO_SUBCLASSES, TWO_SUBCLASSES_REVERSED),
        (TWO_SUBCLASSES_REVERSED, TWO_SUBCLASSES),
        (ONE_SUBCLASS, NAME_ONLY),
        (CUSTOM, CUSTOM),
    ],
)
def test_pojo_covers_the_same_pojo_with_fewer_subclasses(wide: bytes, narrow: bytes) -> None:
    """This also holds for POJOs inside other snapshots, although these store different lengths."""
    for wrap in (pojo_field, lambda s: s, list_of, lambda s: pojo_field(list_of(s))):
        assert parsed_in_frame(wrap(wide)).covers(parsed_in_frame(wrap(narrow)))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (NO_SUBCLASSES, ONE_SUBCLASS),
        (ONE_SUBCLASS, TWO_SUBCLASSES),
        (NAME_ONLY, ONE_SUBCLASS),
        (ONE_SUBCLASS, pojo(FIELDS, {"com.x.B": LONG})),
        (ONE_SUBCLASS, pojo(FIELDS, {"com.x.A": INT})),
        (NO_SUBCLASSES, pojo({"b": STRING, "a": INT})),
        (NO_SUBCLASSES, pojo({"a": INT, "b": INT})),
        (NO_SUBCLASSES, pojo({"a": INT, "b": None})),
        (NO_SUBCLASSES, pojo(FIELDS, registered={"com.x.A": LONG})),
        (pojo(FIELDS, registered={"com.x.A": LONG}), pojo(FIELDS, registered={"com.x.A": INT})),
        (INT, LONG),
        (CUSTOM, CUSTOM[:-1] + b"\4"),
        (TUPLE, TUPLE.replace(b"Tuple2", b"Tuple3")),
        (ROW_DATA, ROW_DATA.replace(b"anything", b"anyThing")),
    ],
)
def test_pojo_does_not_cover_one_that_differs_otherwise(wide: bytes, narrow: bytes) -> None:
    for wrap in (pojo_field, list_of):
        assert not parsed_in_frame(wrap(wide)).covers(parsed_in_frame(wrap(narrow)))


def pojo_field(inner: bytes) -> bytes:
    return pojo({"outer": inner})


def parsed_in_frame(data: bytes) -> SerializerSnapshot:
    """Return the snapshot, read as that of a POJO's field: its length there delimits even an unknown snapshot."""
    return parsed(pojo({"x": data})).nested[0]


@pytest.mark.parametrize(
    ("packed", "what"),
    [(b"\xff\xff\xff\xff\x07", "an impossible length"), (b"\xff" * 9, "a packed number of more than five bytes")],
)
def test_packed_text_with_a_damaged_length_is_refused(packed: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        read_snapshot(ByteReader(snapshot(AVRO, 3, packed), "header"))

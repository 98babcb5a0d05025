"""Reader of Java object streams, on streams that Java wrote."""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.java_serialization import JavaClass, JavaEnum, JavaObject, read_java_object
from rescale.flink.metadata.properties import savepoint_properties
from rescale.text.errors import SnapshotError, UnsupportedError
from support.java_programs import printed_by

JAVA_SOURCE = Path(__file__).with_name("JavaObjects.java")
BYTES_BEHIND = b"\xffwhat follows"


@pytest.fixture(scope="module")
def streams() -> dict[str, bytes]:
    """Object streams by name, written by a Java program."""
    return {name: base64.b64decode(encoded) for name, encoded in map(str.split, printed_by(JAVA_SOURCE).splitlines())}


def read(data: bytes) -> object:
    return read_java_object(ByteReader(data, "stream"))


def test_java_object_is_read_to_its_last_byte(streams: dict[str, bytes]) -> None:
    assert len(streams) > 10
    for name, data in streams.items():
        if name != "nested-200":
            reader = ByteReader(data + BYTES_BEHIND, name)
            read_java_object(reader)
            assert reader.raw(reader.remaining) == BYTES_BEHIND, name


def test_strings_enums_and_classes_are_read(streams: dict[str, bytes]) -> None:
    assert read(streams["null"]) is None
    assert read(streams["string"]) == "text \0 € \U0001f600"
    assert read(streams["long-string"]) == "x" * 70_000
    assert read(streams["enum"]) == JavaEnum("java.util.concurrent.TimeUnit", "NANOSECONDS")
    java_class = read(streams["class"])
    assert isinstance(java_class, JavaClass)
    assert (java_class.name, java_class.serial_version) == ("JavaObjects$Fields", -6)
    assert [super_class.name for super_class in java_class.super_classes] == ["JavaObjects$Above"]


def test_references_of_an_object_are_kept(streams: dict[str, bytes]) -> None:
    value = read(streams["fields"])
    assert isinstance(value, JavaObject)
    assert value.fields["label"] == "above"
    assert value.fields["own"] == "fields"
    assert value.fields["self"] is value
    assert value.fields["nothing"] is None
    assert value.fields["unit"] == JavaEnum("java.util.concurrent.TimeUnit", "DAYS")
    assert isinstance(value.fields["ints"], JavaObject)
    assert value.fields["ints"].java_class.name == "[I"
    assert isinstance(value.fields["type"], JavaClass)
    assert value.fields["type"].name == "JavaObjects$Above"
    assert "i" not in value.fields


def test_too_deeply_nested_objects_are_refused(streams: dict[str, bytes]) -> None:
    with pytest.raises(SnapshotError, match="nested too deep"):
        read(streams["nested-200"])


@pytest.mark.parametrize("name", ["map", "fields", "external", "proxy", "enum-map"])
def test_flipped_byte_is_read_or_refused(streams: dict[str, bytes], name: str) -> None:
    data = streams[name][:1500]
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            with suppress(SnapshotError, UnsupportedError):
                read(data[:at] + bytes((data[at] ^ flip,)) + data[at + 1 :])


def test_truncated_stream_is_refused() -> None:
    data = savepoint_properties(is_canonical=True)
    for end in range(len(data)):
        with pytest.raises(SnapshotError):
            read(data[:end])


STREAM_HEADER = bytes.fromhex("aced0005")


def class_description(name: bytes, flags: int, rest: bytes) -> bytes:
    return b"\x72" + struct.pack(">H", len(name)) + name + bytes(8) + bytes((flags,)) + rest


def reference(handle: int) -> bytes:
    return b"\x71" + struct.pack(">i", 0x7E0000 + handle)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "ends too early"),
        (b"PK\x03\x04", "not a Java object stream"),
        (STREAM_HEADER + b"\x00", "not the beginning of a Java object"),
        (STREAM_HEADER + b"\x77\x01x", "not the beginning of a Java object"),
        (STREAM_HEADER + b"\x71\x00\x7e\x00\x00", "not read yet"),
        (STREAM_HEADER + b"\x71\xff\xff\xff\xff", "not read yet"),
        (STREAM_HEADER + b"\x73\x70", "not a Java class"),
        (STREAM_HEADER + b"\x73\x74\x00\x01x", "not a Java class"),
        (STREAM_HEADER + b"\x7e" + class_description(b"E", 0x12, b"\0\0\x78\x70") + b"\x70", "not a Java string"),
        (STREAM_HEADER + class_description(b"A", 2, b"\xff\xff"), "negative number of fields"),
        (STREAM_HEADER + class_description(b"A", 2, b"\0\x01Q\0\x01q"), "not a Java type"),
        (STREAM_HEADER + class_description(b"A", 2, b"\0\0\x78\x71\x00\x7e\x00\x00"), "not read yet"),
        (STREAM_HEADER + class_description(b"A", 2, b"\0\0\x78\x74\x00\x01x"), "not a Java class"),
        (
            STREAM_HEADER + b"\x75" + class_description(b"A", 2, b"\0\0\x78\x70") + b"\0\0\0\0",
            "not the class of a Java array",
        ),
        (
            STREAM_HEADER + b"\x75" + class_description(b"[I", 2, b"\0\0\x78\x70") + b"\x7f\xff\xff\xff",
            "an impossible count",
        ),
        (
            STREAM_HEADER + b"\x75" + class_description(b"[[I", 2, b"\0\0\x78\x70") + b"\xff\xff\xff\xff",
            "an impossible count",
        ),
        (STREAM_HEADER + b"\x7c\x7f\xff\xff\xff\xff\xff\xff\xff", "ends too early"),
        (STREAM_HEADER + b"\x7c\0\0\0\0\0\0\0\x01\0", "modified UTF-8"),
        (STREAM_HEADER + class_description(b"A", 2, b"\0\0\x78") * 200, "nested too deep"),
    ],
)
def test_malformed_stream_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        read(data)


def test_number_of_super_classes_is_limited() -> None:
    """Each class refers to the previous one by reference, so the limit on nesting does not apply."""
    classes = [class_description(b"A", 2, b"\0\0\x78" + (b"\x70" if n == 0 else reference(n))) for n in range(200)]
    holder = class_description(b"H", 2, b"\0\0" + b"".join(classes) + b"\x78\x70")
    with pytest.raises(SnapshotError, match="too many super classes"):
        read(STREAM_HEADER + holder)


def test_externalizable_without_block_marks_is_refused() -> None:
    """Stream protocol 1 wrote `Externalizable` objects without block marks, so their end is unknown."""
    with pytest.raises(UnsupportedError, match="in the old Externalizable format, which has no end mark"):
        read(STREAM_HEADER + b"\x73" + class_description(b"External", 4, b"\0\0\x78\x70"))

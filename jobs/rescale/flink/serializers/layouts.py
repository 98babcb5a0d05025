"""How the bodies of serializer snapshots are laid out; the classes that share a layout stand in `registry`.

Two families cover most: *simple* ones have no body (`SimpleTypeSerializerSnapshot`), *composite* ones an outer body of
their own and a block of nested snapshots (`CompositeTypeSerializerSnapshot`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rescale.flink.binary import ByteReader
from rescale.flink.java_serialization import JavaObject, JavaValue, read_java_object
from rescale.flink.serializers.snapshot import SerializerSnapshot

COMPOSITE_MAGIC = 911108
NESTED_MAGIC, NESTED_VERSION = 1333245, 1
OPTIONAL_MAP_MAGIC = 5440760593776

Attributes = tuple[tuple[str, str], ...]
Nested = tuple[SerializerSnapshot, ...]
ReadNested = Callable[[ByteReader], SerializerSnapshot]
Layout = Callable[[ByteReader, int, ReadNested], tuple[Attributes, Nested]]
OuterBody = Callable[[ByteReader, int], Attributes]


def simple(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """No body; before version 3 the name of the serializer's class."""
    return ((("serializer", reader.utf()),) if version < 3 else ()), ()


def fields(*names: str) -> Layout:
    """A fixed list of fields: `name:utf` or `name:i32`."""

    def layout(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
        return _read_fields(reader, names), ()

    return layout


def constants(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """`EnumSerializerSnapshot`: the class and its constants by ordinal as they were."""
    enum_class = ("class", reader.utf())
    return (enum_class, *(("constant", reader.utf()) for _ in range(reader.count(2)))), ()


def scala_constants(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """`ScalaEnumSerializerSnapshot`: the class, names and ids."""
    found = [("class", reader.utf())]
    for _ in range(reader.count(6)):
        found += [("constant", reader.utf()), ("id", str(reader.i32()))]
    return tuple(found), ()


def composite(outer: OuterBody | None = None) -> Layout:
    """The wrapper of `CompositeTypeSerializerSnapshot` around an outer body."""

    def layout(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:
        outer_version = version
        if version >= 3:
            _expect(reader, COMPOSITE_MAGIC, "a composite serializer snapshot")
            outer_version = reader.i32()
        attributes = outer(reader, outer_version) if outer else ()
        return attributes, nested_block(reader, read)

    return layout


def outer_fields(*names: str) -> OuterBody:
    """An outer body of fields that every version has."""
    return lambda reader, outer_version: _read_fields(reader, names)  # noqa: ARG005


def outer_flag(name: str, since: int) -> OuterBody:
    """An outer body of one flag, which is there from outer version `since` on."""
    return lambda reader, version: ((name, str(reader.boolean())),) if version >= since else ()


def outer_external(reader: ByteReader, outer_version: int) -> Attributes:  # noqa: ARG001
    """`ExternalSerializerSnapshot`: the `DataType`, and whether its input is internal."""
    return (("type", _java_name(read_java_object(reader))), ("isInternalInput", str(reader.boolean())))


def nested_block(reader: ByteReader, read: ReadNested) -> Nested:
    """`NestedSerializersSnapshotDelegate`."""
    _expect(reader, NESTED_MAGIC, "a block of nested serializer snapshots")
    _expect(reader, NESTED_VERSION, "a version of nested serializer snapshots")
    return tuple(read(reader) for _ in range(reader.count(6)))


def row_data(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """`RowDataSerializerSnapshot`: logical types as Java objects, then the fields' serializers."""
    types = [("type", _java_name(read_java_object(reader))) for _ in range(reader.count(4))]
    return tuple(types), nested_block(reader, read)


def java_objects(count: int) -> Layout:
    """A fixed number of Java objects."""

    def layout(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
        return tuple(("type", _java_name(read_java_object(reader))) for _ in range(count)), ()

    return layout


def sorted_map(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """`SortedMapSerializerSnapshot`: the comparator as a Java object, then key and value."""
    return (("comparator", _java_name(read_java_object(reader))),), nested_block(reader, read)


def ttl_aware(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """`TtlAwareSerializerSnapshot`: whether TTL is on, then the serializer behind it."""
    return (("isTtlEnabled", str(reader.boolean())),), (read(reader),)


class OptionalEntry(NamedTuple):
    """An entry of `LinkedOptionalMapSerializer`: key and value each in a frame of known length, or absent."""

    name: str
    key: bytes | None
    value: bytes | None


def optional_map(reader: ByteReader) -> tuple[OptionalEntry, ...]:
    at = reader.position
    magic = reader.i64()
    if magic != OPTIONAL_MAP_MAGIC:
        raise reader.error("not a map of optional entries", at=at, expected=OPTIONAL_MAP_MAGIC, found=magic)
    entries = []
    for _ in range(reader.count(4)):
        name = reader.utf()
        key = reader.blob() if reader.boolean() else None
        entries.append(OptionalEntry(name, key, reader.blob() if reader.boolean() else None))
    return tuple(entries)


def pojo(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """`PojoSerializerSnapshot`: fields in the order in which they are written, then the subclasses it knows."""
    attributes, nested = [("class", reader.utf())], []
    for name, _, value in optional_map(reader):
        attributes.append(("field", name))
        if value is not None:
            nested.append(read(ByteReader(value, reader.path)))
    for kind in ("registered subclass", "subclass"):
        attributes += [(kind, name) for name, _, _ in optional_map(reader)]
    return tuple(attributes), tuple(nested)


def kryo(reader: ByteReader, version: int, read: ReadNested) -> tuple[Attributes, Nested]:  # noqa: ARG001
    """`KryoSerializerSnapshot`: the class and three maps of registrations."""
    attributes = [("class", reader.utf())]
    for kind in ("registration", "default serializer", "default serializer class"):
        attributes += [(kind, name) for name, _, _ in optional_map(reader)]
    return tuple(attributes), ()


def _read_fields(reader: ByteReader, names: tuple[str, ...]) -> Attributes:
    found = []
    for name in names:
        label, _, kind = name.partition(":")
        found.append((label, reader.utf() if kind == "utf" else str(reader.i32())))
    return tuple(found)


def _java_name(value: JavaValue) -> str:
    return value.java_class.name if isinstance(value, JavaObject) else str(value)


def _expect(reader: ByteReader, number: int, what: str) -> None:
    at = reader.position
    found = reader.i32()
    if found != number:
        raise reader.error(f"not {what}", at=at, expected=number, found=found)

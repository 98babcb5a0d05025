"""Layouts of the bodies of serializer snapshots; `rows` says which class has which layout.

Most classes belong to two families: *simple* classes have no body (`SimpleTypeSerializerSnapshot`), and *composite*
classes have an outer body and a block of nested snapshots (`CompositeTypeSerializerSnapshot`).
"""

from __future__ import annotations

from collections.abc import Callable

from rescale.flink.serializers.snapshot import ABANDONED, OWN_KRYO_SERIALIZER
from rescale.flink.serializers.snapshot_body import NESTED_MAGIC, Body

COMPOSITE_MAGIC = 911108
_FIRST_VERSION_WITH_OUTER_VERSION = 3
_LAST_VERSION_WITH_CLASS = 2
_FIRST_AVRO_VERSION_WITH_LONG_SCHEMAS = 3

Layout = Callable[[Body], None]
OuterBody = Callable[[Body, int], None]
"""Function that reads an outer body; its second argument is the version of the outer body."""


def simple(body: Body) -> None:
    """Read the body of a simple class: the name of the serializer's class before version 3, nothing since then."""
    if body.version <= _LAST_VERSION_WITH_CLASS:
        body.utf("serializer")


def fields(*names: str) -> Layout:
    """Return the layout of a fixed list of values.

    Each of `names` is `name:utf`, `name:i32`, `name:flag`, `name:blob`, `name:java` or `name:snapshot`.
    """

    def layout(body: Body) -> None:
        _read_fields(body, names)

    return layout


def constants(body: Body) -> None:
    """Read the body of `EnumSerializerSnapshot`: the class, and its constants in the order of their ordinals."""
    body.utf("class")
    for _ in range(body.reader.count(item_size=2)):
        body.utf("constant")


def scala_constants(body: Body) -> None:
    """Read the body of `ScalaEnumSerializerSnapshot`: the class, and the names and ids of its constants."""
    body.utf("class")
    for _ in range(body.reader.count(item_size=6)):
        body.utf("constant")
        body.i32("id")


def composite(outer: OuterBody | None = None) -> Layout:
    """Return the layout of a `CompositeTypeSerializerSnapshot` around an outer body."""

    def layout(body: Body) -> None:
        outer_version = body.version
        if body.version >= _FIRST_VERSION_WITH_OUTER_VERSION:
            body.expect(COMPOSITE_MAGIC, "a composite serializer snapshot")
            outer_version = body.outer_version()
        if outer is not None:
            outer(body, outer_version)
        body.snapshots()

    return layout


def outer_fields(*names: str, since: int = 0) -> OuterBody:
    """Return the layout of an outer body with values as for `fields`; before outer version `since`, it is empty."""

    def outer(body: Body, outer_version: int) -> None:
        if outer_version >= since:
            _read_fields(body, names)

    return outer


def external(body: Body, _: int) -> None:
    """Read the outer body of `ExternalSerializerSnapshot`: the data type, and since Flink 1.13 a flag.

    The version does not tell whether there is a flag. But nested snapshots follow: without a flag, their magic number
    comes first. Releases since 1.13 cannot read snapshots without the flag.
    """
    body.java_object("type")
    at = body.reader.position
    has_flag = body.reader.i32() != NESTED_MAGIC
    body.reader.position = at
    if has_flag:
        body.flag("isInternalInput")
    else:
        body.attributes.append((ABANDONED, "1.12"))


def row_data(body: Body) -> None:
    """Read the body of `RowDataSerializerSnapshot`: logical types as Java objects, then the fields' serializers."""
    for _ in range(body.reader.count(item_size=5)):
        body.java_object("type")
    body.snapshots()


def sorted_map(body: Body) -> None:
    """Read the body of `SortedMapSerializerSnapshot`: a comparator (Java object), then key and value serializer."""
    body.java_object("comparator")
    body.snapshots()


def pojo(body: Body) -> None:
    """Read the body of `PojoSerializerSnapshot`: fields in the order of their bytes, then the known subclasses.

    All subtasks know the same registered subclasses. The serializer adds an unregistered subclass when it meets one, so
    unregistered subclasses may differ between subtasks.
    """
    body.utf("class")
    for attribute in ("field", "registered subclass"):
        snapshots = [body.framed_snapshot(entry) for entry in body.optional_map(attribute)]
        body.nested += [snapshot for snapshot in snapshots if snapshot is not None]
    start = body.reader.position
    body.subclasses = [(entry.name, body.framed_snapshot(entry)) for entry in body.optional_map("subclass")]
    body.exclude_from_own_bytes(start)


def kryo(body: Body) -> None:
    """Read the body of `KryoSerializerSnapshot`: the class and three maps of registrations.

    A registration is `class:utf kind:i32`, followed by a serializer unless the kind is 0 (`KryoRegistration`).
    """
    body.utf("class")
    for entry in body.optional_map("registration"):
        if entry.value is not None and entry.value.utf() and entry.value.i32():
            body.attributes.append((OWN_KRYO_SERIALIZER, entry.name))
    for attribute in ("default serializer", "default serializer class"):
        body.optional_map(attribute)


def avro(body: Body) -> None:
    """Read the body of `AvroSerializerSnapshot`: the class and its schema.

    Since version 3, Flink writes both with `StringValue.writeString`, which allows long schemas.
    """
    read_text = body.text if body.version >= _FIRST_AVRO_VERSION_WITH_LONG_SCHEMAS else body.utf
    read_text("class")
    read_text("schema")


def _read_fields(body: Body, names: tuple[str, ...]) -> None:
    for field in names:
        name, _, encoding = field.partition(":")
        match encoding:
            case "utf":
                body.utf(name)
            case "i32":
                body.i32(name)
            case "flag":
                body.flag(name)
            case "blob":
                body.blob(name)
            case "java":
                body.java_object(name)
            case "snapshot":
                body.snapshot()

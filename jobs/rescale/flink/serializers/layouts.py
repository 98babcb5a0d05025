"""How the bodies of serializer snapshots are laid out; `rows` says which classes have it.

Two families cover most: *simple* ones have no body (`SimpleTypeSerializerSnapshot`), *composite* ones an outer body of
their own and a block of nested snapshots (`CompositeTypeSerializerSnapshot`).
"""

from __future__ import annotations

from collections.abc import Callable

from rescale.flink.serializers.snapshot import ABANDONED
from rescale.flink.serializers.snapshot_body import NESTED_MAGIC, Body

COMPOSITE_MAGIC = 911108
_FIRST_VERSION_WITH_OUTER_VERSION = 3
_LAST_VERSION_WITH_CLASS = 2
_FIRST_AVRO_VERSION_WITH_LONG_SCHEMAS = 3

Layout = Callable[[Body], None]
OuterBody = Callable[[Body, int], None]
"""Takes the outer version too, which counts the forms of the outer body."""


def simple(body: Body) -> None:
    """No body; before version 3 the name of the serializer's class."""
    if body.version <= _LAST_VERSION_WITH_CLASS:
        body.utf("serializer")


def fields(*names: str) -> Layout:
    """A fixed list of values: `name:utf`, `name:i32`, `name:flag`, `name:blob`, `name:java` or `name:snapshot`."""

    def layout(body: Body) -> None:
        _read_fields(body, names)

    return layout


def constants(body: Body) -> None:
    """`EnumSerializerSnapshot`: the class and its constants by ordinal as they were."""
    body.utf("class")
    for _ in range(body.reader.count(item_size=2)):
        body.utf("constant")


def scala_constants(body: Body) -> None:
    """`ScalaEnumSerializerSnapshot`: the class, names and ids."""
    body.utf("class")
    for _ in range(body.reader.count(item_size=6)):
        body.utf("constant")
        body.i32("id")


def composite(outer: OuterBody | None = None) -> Layout:
    """The wrapper of `CompositeTypeSerializerSnapshot` around an outer body."""

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
    """An outer body of values as `fields` takes them, which are there from outer version `since` on."""

    def outer(body: Body, outer_version: int) -> None:
        if outer_version >= since:
            _read_fields(body, names)

    return outer


def external(body: Body, _: int) -> None:
    """`ExternalSerializerSnapshot`: the data type, and since Flink 1.13 a flag, under the same version.

    Flink 1.12 wrote no flag, and later releases miss it. The flag never begins as the block of nested snapshots does.
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
    """`RowDataSerializerSnapshot`: logical types as Java objects, then the fields' serializers."""
    for _ in range(body.reader.count(item_size=5)):
        body.java_object("type")
    body.snapshots()


def sorted_map(body: Body) -> None:
    """`SortedMapSerializerSnapshot`: the comparator as a Java object, then key and value."""
    body.java_object("comparator")
    body.snapshots()


def pojo(body: Body) -> None:
    """`PojoSerializerSnapshot`: fields in the order in which they are written, then the subclasses that it knows.

    Registered subclasses are the same everywhere. The others are added as they are met, so that each subtask may know
    different ones.
    """
    body.utf("class")
    for kind in ("field", "registered subclass"):
        snapshots = [body.framed(entry) for entry in body.optional_map(kind)]
        body.nested += [snapshot for snapshot in snapshots if snapshot is not None]
    start = body.reader.position
    body.subclasses = [(entry.name, body.framed(entry)) for entry in body.optional_map("subclass")]
    body.disown(start)


def kryo(body: Body) -> None:
    """`KryoSerializerSnapshot`: the class and three maps of registrations."""
    body.utf("class")
    for kind in ("registration", "default serializer", "default serializer class"):
        body.optional_map(kind)


def avro(body: Body) -> None:
    """`AvroSerializerSnapshot`: the class and its schema, which may be too long for `writeUTF` since version 3."""
    take = body.text if body.version >= _FIRST_AVRO_VERSION_WITH_LONG_SCHEMAS else body.utf
    take("class")
    take("schema")


def _read_fields(body: Body, names: tuple[str, ...]) -> None:
    for field in names:
        name, _, kind = field.partition(":")
        match kind:
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

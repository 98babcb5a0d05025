"""What subtasks know of the subclasses of a POJO, put together.

`PojoSerializer` adds subclasses that it was not told of to its snapshot as it meets them. Where one subtask has met
only these and another one only those, neither snapshot holds the other; a value names its class itself, so that one
with the subclasses of both describes the values of both.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import read_snapshot, write_snapshot
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.snapshot_body import OPTIONAL_MAP_MAGIC, Body

_POJO = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"


def put_together(one: SerializerSnapshot, other: SerializerSnapshot) -> SerializerSnapshot | None:
    """A snapshot that covers both; None if they differ in more than subclasses, or in those of a POJO's fields."""
    if one.covers(other):
        return one
    if other.covers(one):
        return other
    if (one.class_name, one.version) != (other.class_name, other.version):
        return None
    body = _of_pojos(one, other) if one.class_name == _POJO else _of_nested(one, other)
    if body is None:
        return None
    return read_snapshot(ByteReader(_written(SerializerSnapshot(one.class_name, one.version, body))))


def _of_pojos(one: SerializerSnapshot, other: SerializerSnapshot) -> bytes | None:
    (head, entries), (other_head, more) = _subclasses(one), _subclasses(other)
    if head != other_head:
        return None
    known, met = dict(one.subclasses), dict(other.subclasses)
    for name, entry in more.items():
        mine, theirs = known.get(name), met[name]
        if mine is None or (theirs is not None and theirs.covers(mine)):
            entries[name] = entry
        elif theirs is not None and not mine.covers(theirs):
            return None
    out = ByteWriter()
    out.raw(head)
    out.i64(OPTIONAL_MAP_MAGIC)
    out.i32(len(entries))
    for entry in entries.values():
        out.raw(entry)
    return out.bytes()


def _subclasses(pojo: SerializerSnapshot) -> tuple[bytes, dict[str, bytes]]:
    """The body up to the map of subclasses that were met, and the entries of that map as they stand."""
    reader = ByteReader(pojo.body)
    body = Body(reader, pojo.version, read_snapshot)
    body.utf("class")
    for kind in ("field", "registered subclass"):
        body.optional_map(kind)
    head = pojo.body[: reader.position]
    reader.i64()
    entries = {}
    for _ in range(reader.count(item_size=4)):
        start, name = reader.position, reader.utf()
        for _frame in ("key", "value"):
            if reader.boolean():
                reader.blob()
        entries[name] = pojo.body[start : reader.position]
    return head, entries


def _of_nested(one: SerializerSnapshot, other: SerializerSnapshot) -> bytes | None:
    """Of classes whose nested snapshots are the last that they write, as those of all composite serializers are."""
    head = _before_nested(one)
    if head is None or head != _before_nested(other) or len(one.nested) != len(other.nested):
        return None
    inside = [put_together(mine, theirs) for mine, theirs in zip(one.nested, other.nested, strict=True)]
    found = [snapshot for snapshot in inside if snapshot is not None]
    return head + b"".join(map(_written, found)) if len(found) == len(inside) else None


def _before_nested(snapshot: SerializerSnapshot) -> bytes | None:
    nested = b"".join(map(_written, snapshot.nested))
    return snapshot.body.removesuffix(nested) if nested and snapshot.body.endswith(nested) else None


def _written(snapshot: SerializerSnapshot) -> bytes:
    out = ByteWriter()
    write_snapshot(out, snapshot)
    return out.bytes()

"""Merges POJO snapshots from several subtasks, each with the subclasses that its subtask has met.

`PojoSerializer` adds an unregistered subclass to its snapshot when it meets one. If two subtasks have met different
subclasses, neither of their snapshots covers the other. A value names its own class, so a snapshot with the subclasses
of both subtasks describes the values of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import NamedTuple

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.serializers.reading import read_snapshot, snapshot_bytes
from rescale.flink.serializers.rows.core import POJO
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot
from rescale.flink.serializers.snapshot_body import OPTIONAL_MAP_MAGIC


def merge_all_snapshots(snapshots: Sequence[SerializerSnapshot]) -> SerializerSnapshot | None:
    """Return a snapshot that covers all `snapshots`: one of them, or a merged one.

    Returns None if two of the snapshots differ in more than subclasses.
    """
    distinct_snapshots = list(dict.fromkeys(snapshots))  # most subtasks have equal snapshots
    for candidate in distinct_snapshots:
        if all(map(candidate.covers, distinct_snapshots)):
            return candidate
    first: SerializerSnapshot | None = distinct_snapshots[0]
    return reduce(lambda so_far, other: so_far and merge_snapshots(so_far, other), distinct_snapshots[1:], first)


def merge_snapshots(first: SerializerSnapshot, other: SerializerSnapshot) -> SerializerSnapshot | None:
    """Return a snapshot that covers both snapshots; None if they differ in more than subclasses."""
    if first.covers(other):
        return first
    if other.covers(first):
        return other
    if (first.class_name, first.version) != (other.class_name, other.version):
        return None
    if _is_unknown(first) or _is_unknown(other):
        return None
    body = _merged_pojo(first, other) if first.class_name == POJO.snapshot else _merged_composite(first, other)
    if body is None:
        return None
    return read_snapshot(ByteReader(snapshot_bytes(SerializerSnapshot(first.class_name, first.version, body))))


def _is_unknown(snapshot: SerializerSnapshot) -> bool:
    return bool(snapshot.values(UNKNOWN))


class _Entry(NamedTuple):
    """Entry of a map (`LinkedOptionalMapSerializer`): the bytes of its name and key, and the value if it has one."""

    key: bytes
    value: SerializerSnapshot | None


def _merged_pojo(first: SerializerSnapshot, other: SerializerSnapshot) -> bytes | None:
    """Return the merged body of two POJO snapshots; None if they differ in more than the subclasses that were met."""
    if first.values("class") != other.values("class"):
        return None
    out = ByteWriter().utf(first.values("class")[0])
    for first_entries, other_entries, were_met in zip(
        _entry_maps(first), _entry_maps(other), (False, False, True), strict=True
    ):
        if not were_met and [entry.key for entry in first_entries.values()] != [
            entry.key for entry in other_entries.values()
        ]:
            return None
        merged_entries = [
            _merged_entry(first_entries.get(name), other_entries.get(name), were_met=were_met)
            for name in {**first_entries, **other_entries}
        ]
        out.i64(OPTIONAL_MAP_MAGIC).i32(len(merged_entries))
        for entry in merged_entries:
            if entry is None:
                return None
            out.raw(entry.key).boolean(entry.value is not None)
            if entry.value is not None:
                out.blob(snapshot_bytes(entry.value))
    return out.bytes()


def _merged_entry(first: _Entry | None, other: _Entry | None, *, were_met: bool) -> _Entry | None:
    """Merge two entries with the same name, one of which may be missing; None if they contradict each other.

    `were_met` is true for subclasses that were met, whose value may be known to one of two subtasks only.
    """
    if first is None or other is None:
        return first or other
    if first.value is not None and other.value is not None:
        merged_value = merge_snapshots(first.value, other.value)
        return None if merged_value is None else first._replace(value=merged_value)
    if first.value is other.value:
        return first
    return (first if other.value is None else other) if were_met else None


def _entry_maps(pojo: SerializerSnapshot) -> list[dict[str, _Entry]]:
    """Return three maps by name: the fields, the registered subclasses, and the subclasses that were met."""
    reader = ByteReader(pojo.body)
    reader.utf()
    met_subclasses = (snapshot for _, snapshot in pojo.subclasses if snapshot is not None)
    nested_snapshots = chain(pojo.nested, met_subclasses)
    return [dict(_entries(reader, nested_snapshots)) for _ in range(3)]


def _entries(reader: ByteReader, nested_snapshots: Iterator[SerializerSnapshot]) -> Iterator[tuple[str, _Entry]]:
    reader.i64()
    for _ in range(reader.count(item_size=4)):
        start, name = reader.position, reader.utf()
        if reader.boolean():
            reader.blob()
        key = reader.data[start : reader.position]
        has_value = reader.boolean()
        if has_value:
            reader.blob()
        yield name, _Entry(key, next(nested_snapshots) if has_value else None)


def _merged_composite(first: SerializerSnapshot, other: SerializerSnapshot) -> bytes | None:
    """Return the merged body of two snapshots whose nested snapshots come last, as in all composite serializers."""
    head = _bytes_before_nested(first)
    if head is None or head != _bytes_before_nested(other) or len(first.nested) != len(other.nested):
        return None
    merged_nested = [merge_snapshots(own, theirs) for own, theirs in zip(first.nested, other.nested, strict=True)]
    merged_snapshots = [snapshot for snapshot in merged_nested if snapshot is not None]
    return (
        head + b"".join(map(snapshot_bytes, merged_snapshots)) if len(merged_snapshots) == len(merged_nested) else None
    )


def _bytes_before_nested(snapshot: SerializerSnapshot) -> bytes | None:
    nested_bytes = b"".join(map(snapshot_bytes, snapshot.nested))
    return snapshot.body.removesuffix(nested_bytes) if nested_bytes and snapshot.body.endswith(nested_bytes) else None

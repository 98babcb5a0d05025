"""Key groups in heap framing as `HeapSnapshotStrategy` writes them, one entry after the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rescale.flink.snappy import compressed
from support.canonical import Record
from support.composite import composite_key
from support.java_values import JavaType
from support.snapshot_bytes import BASE, composite, i32, list_of, state


class HeapState(NamedTuple):
    """`value` is of a value, or of the elements of a list; a map has keys of `user_key`, too."""

    name: str
    namespace: JavaType
    value: JavaType
    state_type: str = "VALUE"
    user_key: JavaType | None = None

    @property
    def info(self) -> bytes:
        """What a header says of it."""
        value = self.value.snapshot
        if self.state_type == "LIST":
            value = list_of(value)
        if self.user_key is not None:
            value = composite(BASE + "MapSerializerSnapshot", self.user_key.snapshot, value)
        serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": self.namespace.snapshot}
        return state(self.name, 0, {"KEYED_STATE_TYPE": self.state_type}, serializers)

    def write(self, value: Any) -> bytes:
        """As it lies in an entry: a map is a list of pairs."""
        if self.state_type == "LIST":
            return i32(len(value)) + b"".join(map(self.value.write, value))
        if self.user_key is not None:
            return i32(len(value)) + b"".join(self.user_key.write(key) + self.nullable(one) for key, one in value)
        return self.value.write(value)

    def nullable(self, value: Any) -> bytes:
        return b"\1" if value is None else b"\0" + self.value.write(value)


class Entry(NamedTuple):
    namespace: Any
    key: Any
    value: Any


Entries = Mapping[int, Sequence[Entry]]
"""By state id."""


def write_heap_group(
    key_group: int, key: JavaType, states: Sequence[HeapState], entries: Entries, order: Sequence[int], *, snappy: bool
) -> bytes:
    """The states are listed in the `order` given."""
    out = i32(key_group)
    for state_id in order:
        of, found = states[state_id], entries.get(state_id, ())
        block = struct.pack(">hi", state_id, len(found)) + b"".join(
            of.namespace.write(entry.namespace) + key.write(entry.key) + of.write(entry.value) for entry in found
        )
        out += b"".join(compressed([block])) if snappy else block
    return out


def records_of(key: JavaType, states: Sequence[HeapState], entries: Entries, *, ambiguous: bool) -> Iterator[Record]:
    """What canonical state has of them, with RocksDB's nulls in maps (`HeapKeyValueStateIterator` writes more)."""
    for state_id, found in entries.items():
        of = states[state_id]
        for namespace, one, value in found:
            parts = key.write(one), of.namespace.write(namespace)
            if of.user_key is not None:
                for user_key, item in value:
                    whole = composite_key(*parts, ambiguous=ambiguous, user_key=of.user_key.write(user_key))
                    yield Record(state_id, whole, of.nullable(item))
            elif of.state_type == "LIST":
                if value:
                    joined = b",".join(map(of.value.write, value))
                    yield Record(state_id, composite_key(*parts, ambiguous=ambiguous), joined)
            else:
                yield Record(state_id, composite_key(*parts, ambiguous=ambiguous), of.value.write(value))

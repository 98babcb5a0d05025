"""Key groups of the hashmap backend's native format, one entry at a time, as `HeapSnapshotStrategy` writes them."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

from rescale.flink.encoding.snappy import compressed
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.heap.heap_entries import entry_layouts
from rescale.flink.keyed.heap.heap_reader import HeapReader
from rescale.flink.keyed.timers.timer_reader import TimerReader
from rescale.flink.keyed.timers.timer_writer import RecordBlock
from rescale.flink.serializers import program
from rescale.flink.serializers.registry import FLINK_ROWS
from support.canonical import Record
from support.composite import composite_key
from support.java_composites import List, Pojo, Tuple
from support.java_values import HASHABLE_LEAVES, JavaType
from support.snapshot_bytes import BASE, composite, i32, list_of, state

LONG, TEXT = HASHABLE_LEAVES["Long"], HASHABLE_LEAVES["String"]
ORDER = Pojo({"id": LONG, "town": TEXT}, 1, 31, ["id"])


class HeapState(NamedTuple):
    """State on the heap; `value` is the serializer of values or list elements, `user_key` that of map keys."""

    name: str
    namespace: JavaType
    value: JavaType
    state_type: str = "VALUE"
    user_key: JavaType | None = None

    @property
    def info(self) -> bytes:
        """Return the entry of a header for this state."""
        value = self.value.snapshot
        if self.state_type == "LIST":
            value = list_of(value)
        if self.user_key is not None:
            value = composite(BASE + "MapSerializerSnapshot", self.user_key.snapshot, value)
        serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": self.namespace.snapshot}
        return state(self.name, 0, {"KEYED_STATE_TYPE": self.state_type}, serializers)

    def write(self, value: Any) -> bytes:
        """Write a value as in heap entries, where a map is a list of pairs."""
        if self.state_type == "LIST":
            return i32(len(value)) + b"".join(map(self.value.write, value))
        if self.user_key is not None:
            return i32(len(value)) + b"".join(self.user_key.write(key) + self.nullable(item) for key, item in value)
        return self.value.write(value)

    def nullable(self, value: Any) -> bytes:
        return b"\1" if value is None else b"\0" + self.value.write(value)


class Entry(NamedTuple):
    namespace: Any
    key: Any
    value: Any


def states_with(namespace: JavaType) -> list[HeapState]:
    """Return states of every kind with this namespace."""
    return [
        HeapState("value", namespace, TEXT),
        HeapState("list", namespace, ORDER, "LIST"),
        HeapState("map", namespace, List(TEXT), "MAP", TEXT),
        HeapState("sum", namespace, Tuple([LONG, LONG]), "REDUCING"),
    ]


def content(heap_state: HeapState) -> st.SearchStrategy[Any]:
    if heap_state.user_key is not None:
        return st.lists(st.tuples(heap_state.user_key.values, st.none() | heap_state.value.values), max_size=5)
    return st.lists(heap_state.value.values, max_size=5) if heap_state.state_type == "LIST" else heap_state.value.values


def drawn(heap_state: HeapState, key: JavaType) -> st.SearchStrategy[list[Entry]]:
    return st.lists(st.builds(Entry, heap_state.namespace.values, key.values, content(heap_state)), max_size=4)


Entries = Mapping[int, Sequence[Entry]]
"""Entries by state id."""


def write_heap_group(
    key_group: int, key: JavaType, states: Sequence[HeapState], entries: Entries, order: Sequence[int], *, snappy: bool
) -> bytes:
    """Return a key group with its states in this `order` of ids, compressed if `snappy`."""
    out = i32(key_group)
    for state_id in order:
        heap_state, own_entries = states[state_id], entries.get(state_id, ())
        block = struct.pack(">hi", state_id, len(own_entries)) + b"".join(
            heap_state.namespace.write(entry.namespace) + key.write(entry.key) + heap_state.write(entry.value)
            for entry in own_entries
        )
        out += b"".join(compressed([block])) if snappy else block
    return out


def records_of(key: JavaType, states: Sequence[HeapState], entries: Entries, *, ambiguous: bool) -> Iterator[Record]:
    """Yield the entries as canonical records, with nulls in maps as RocksDB writes them.

    `HeapKeyValueStateIterator` writes more bytes for such a null.
    """
    for state_id, state_entries in entries.items():
        heap_state = states[state_id]
        for namespace, key_value, value in state_entries:
            parts = key.write(key_value), heap_state.namespace.write(namespace)
            if heap_state.user_key is not None:
                for user_key, item in value:
                    whole = composite_key(*parts, ambiguous=ambiguous, user_key=heap_state.user_key.write(user_key))
                    yield Record(state_id, whole, heap_state.nullable(item))
            elif heap_state.state_type == "LIST":
                if value:
                    joined = b",".join(map(heap_state.value.write, value))
                    yield Record(state_id, composite_key(*parts, ambiguous=ambiguous), joined)
            else:
                yield Record(state_id, composite_key(*parts, ambiguous=ambiguous), heap_state.value.write(value))


def read(
    reader: HeapReader | TimerReader, groups: dict[int, bytes], chunk: int = 1 << 20, **how: bool
) -> list[tuple[int, Record]]:
    """Return each record in `groups`, with its key group; the reader gets the bytes of a key group in chunks."""

    def blocks() -> Iterator[tuple[int, list[bytes]]]:
        for key_group, block in groups.items():
            yield key_group, [block[start : start + chunk] for start in range(0, len(block), chunk)]

    return [
        (group, Record(state, records.data[start:limit].tobytes(), records.data[limit + 4 : end].tobytes()))
        for records in reader.read(blocks(), **how)
        for start, limit, end, state, group in zip(
            *(
                getattr(records, column).tolist()
                for column in ("key_starts", "key_ends", "ends", "state_ids", "groups")
            ),
            strict=True,
        )
    ]


def runs_of(
    records: Iterable[tuple[int, Record]], max_parallelism: int, cuts: Sequence[int]
) -> Callable[[int], Iterator[RecordBlock]]:
    """Return a function from a state id to blocks of its records; `cuts` has the number of records before each cut."""
    prefix, of_state = bytes(prefix_size(max_parallelism)), defaultdict[int, list[bytes]](list)
    for _, record in records:
        key = prefix + record.key
        of_state[record.state].append(i32(len(key)) + key + i32(len(record.value)) + record.value)

    def runs(state_id: int) -> Iterator[RecordBlock]:
        own = of_state[state_id]
        for first, last in pairwise(sorted({0, *(cut for cut in cuts if cut < len(own)), len(own)})):
            data = b"in front" + b"".join(own[first:last]) + b"behind"
            yield np.frombuffer(data, np.uint8), 8, len(data) - 6

    return runs


@contextmanager
def without_longs() -> Iterator[None]:
    """Make the serializer of longs unknown until the block ends."""
    long = f"{BASE}LongSerializer$LongSerializerSnapshot"
    known, unknown = program.row_of, replace(FLINK_ROWS[long], values=None)
    entry_layouts.cache_clear()
    try:
        with patch.object(program, "row_of", lambda name: unknown if name == long else known(name)):
            yield
    finally:
        entry_layouts.cache_clear()

"""Entries of heap key groups, read as the records that canonical state has for them, compared with a slow twin."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.heap import heap_reader
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.heap.heap_entries import can_delimit_entries, entry_layouts
from rescale.flink.keyed.heap.heap_reader import HeapReader
from rescale.text.errors import SnapshotError, UnsupportedError
from support.canonical import Record
from support.composite import timer, timers
from support.examples import examples
from support.heap import LONG, ORDER, TEXT, drawn, read, records_of, states_with, write_heap_group
from support.java_composites import Tuple
from support.java_values import JavaType
from support.snapshot_bytes import STRING, VOID_NAMESPACE, i32, keyed_header, keyed_state, list_of, pojo, state

KEY_TYPES: list[JavaType] = [LONG, TEXT, Tuple([LONG, TEXT])]


def header_of(key_type: JavaType, *infos: bytes, compressed: bool = False) -> KeyedHeader:
    return read_keyed_header(keyed_header(*infos, key=key_type.snapshot, compressed=compressed), "")


@given(st.data(), st.sampled_from(KEY_TYPES), st.sampled_from([LONG, TEXT]), st.integers(1, 400), st.booleans())
@settings(max_examples=examples(80))
def test_heap_entries_are_read_as_canonical_records(
    data: st.DataObject, key_type: JavaType, namespace_type: JavaType, chunk_size: int, snappy: bool
) -> None:
    """Chunks may have any size, batches may be too small for all records, and states may have any order."""
    states = states_with(namespace_type)
    ambiguous = namespace_type is TEXT and key_type is not LONG
    groups, expected = {}, []
    for key_group in range(data.draw(st.integers(0, 3))):
        order = data.draw(st.permutations(range(len(states))))
        entries = {i: data.draw(drawn(states[i], key_type)) for i in order}
        groups[key_group] = write_heap_group(key_group, key_type, states, entries, order, snappy=snappy)
        expected += [(key_group, record) for record in records_of(key_type, states, entries, ambiguous=ambiguous)]
    header = header_of(key_type, *(state.info for state in states), compressed=snappy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heap_reader, "BUFFER_SIZE", 64)
        patch.setattr(heap_reader, "RECORDS_AT_ONCE", 3)
        reader = HeapReader(header, data.draw(st.sampled_from([128, 129])))
        assert read(reader, groups, chunk_size) == expected


def test_timers_in_a_heap_group_are_read_as_records() -> None:
    header = header_of(TEXT, timers("_timer_state/event_a", STRING, VOID_NAMESPACE))
    elements = [timer(time, TEXT.write((65 + i,)), b"\0") for i, time in enumerate((-5, 7))]
    block = i32(3) + b"\0\0" + i32(2) + b"".join(elements)
    assert read(HeapReader(header, 128), {3: block}) == [(3, Record(0, element, b"")) for element in elements]


VALUE_HEADER = header_of(TEXT, keyed_state("total"))
ENTRY = b"\0" + TEXT.write((65, 66)) + bytes(8)
BLOCK = i32(9) + b"\0\0" + i32(1) + ENTRY


def test_a_key_group_without_entries_has_no_records() -> None:
    for header in (VALUE_HEADER, replace(VALUE_HEADER, compressed=True)):
        assert read(HeapReader(header, 128), {3: empty_group(3, header)}) == []


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (i32(8) + BLOCK[4:], "begins with another number"),
        (BLOCK[:4] + b"\0\1" + BLOCK[6:], "contains the state id 1"),
        (BLOCK[:6] + i32(-1) + ENTRY, "a negative number"),
        (BLOCK[:6] + i32(2) + ENTRY, "an entry that cannot be read: the data ends"),
        (BLOCK[:-3], "an entry that cannot be read: the data ends"),
        (BLOCK[:7], "ends too early"),
        (BLOCK + b"\0", "bytes after"),
        (BLOCK[:4], "ends too early"),
    ],
)
def test_damaged_heap_group_is_refused_with_its_key_group(block: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=f"{message}.*") as caught:
        read(HeapReader(VALUE_HEADER, 128), {9: block}, 3)
    assert "key group 9" in caught.value.what
    assert 0 <= (caught.value.offset or 0) <= len(block)


def test_beginning_of_a_heap_group_gives_its_whole_records() -> None:
    blocks = {9: (BLOCK[:6] + i32(3) + 3 * ENTRY)[:-1]}
    assert [record.key for _, record in read(HeapReader(VALUE_HEADER, 128), blocks, is_whole=False)] == 2 * [
        ENTRY[1:4] + b"\0"
    ]


POJO_WITH_UNKNOWN_SUBCLASS = pojo({"amount": STRING}, {}, {"com.example.Money": None})
"""Snapshot of a POJO with a registered subclass whose serializer is unknown."""


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (keyed_state("total", POJO_WITH_UNKNOWN_SUBCLASS), "are not all known"),
        (keyed_state("total", STRING, "LIST"), "the format of a list state of String is unknown"),
        (keyed_state("total", STRING, "MAP"), "the format of a map state of String is unknown"),
    ],
)
def test_entries_that_cannot_be_delimited_are_refused_with_their_state(info: bytes, message: str) -> None:
    header = header_of(TEXT, keyed_state("known"), info)
    assert not can_delimit_entries(header)
    with pytest.raises(UnsupportedError, match=message) as caught:
        entry_layouts(header)
    assert caught.value.state == "total"
    assert "canonical savepoint" in str(caught.value.advice)


def test_pojo_of_a_subclass_is_refused() -> None:
    header = header_of(TEXT, keyed_state("order", ORDER.snapshot))
    block = i32(9) + b"\0\0" + i32(1) + b"\0" + TEXT.write((65,)) + b"\4"
    with pytest.raises(UnsupportedError, match="subclass") as caught:
        read(HeapReader(header, 128), {9: block})
    assert caught.value.state == "order"
    assert can_delimit_entries(header)
    pojo_with_subclass = pojo({"id": STRING}, {"com.example.Rush": None})
    assert not can_delimit_entries(header_of(TEXT, keyed_state("order", pojo_with_subclass)))


NO_FIELDS = Tuple([])


def test_impossible_count_of_entries_without_bytes_is_refused() -> None:
    """Only one entry can have no bytes. A loop up to a forged count would take minutes."""
    header = header_of(NO_FIELDS, keyed_state_of(NO_FIELDS.snapshot, NO_FIELDS.snapshot))
    single_entry, many_entries = (i32(3) + b"\0\0" + i32(count) for count in (1, (1 << 31) - 1))
    assert read(HeapReader(header, 128), {3: single_entry}) == [(3, Record(0, b"", b""))]
    with pytest.raises(
        SnapshotError, match="counts 2147483647 entries of the state with id 0, which can have only one"
    ):
        read(HeapReader(header, 128), {3: many_entries})


def test_lists_of_elements_without_bytes_are_refused() -> None:
    header = header_of(TEXT, keyed_state("history", list_of(NO_FIELDS.snapshot), "LIST"))
    with pytest.raises(UnsupportedError, match="the elements of its lists have no bytes") as caught:
        HeapReader(header, 128)
    assert caught.value.state == "history"


def keyed_state_of(value: bytes, namespace: bytes) -> bytes:
    serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": namespace}
    return state("total", 0, {"KEYED_STATE_TYPE": "VALUE"}, serializers)

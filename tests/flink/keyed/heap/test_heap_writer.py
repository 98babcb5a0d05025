"""Entries that were read whole, written as heap key groups again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.heap.heap_reader import HeapReader
from rescale.flink.keyed.heap.heap_writer import HeapWriter
from support.composite import timer, timers
from support.examples import examples
from support.heap import LONG, TEXT, drawn, read, runs_of, states_with, write_heap_group
from support.java_composites import Tuple
from support.java_values import JavaType
from support.snapshot_bytes import STRING, VOID_NAMESPACE, i32, keyed_header

KEY_TYPES: list[JavaType] = [LONG, TEXT, Tuple([LONG, TEXT])]
MAXIMA = st.sampled_from([128, 1000])


def rewritten_block(
    header: bytes, block: bytes, old_max_parallelism: int, new_max_parallelism: int, cuts: list[int]
) -> bytes:
    """Return key group 7, written again from its entries; for `cuts`, see `runs_of`."""
    parsed = read_keyed_header(header, "")
    runs = runs_of(
        read(HeapReader(parsed, old_max_parallelism, reads_whole_entries=True), {7: block}), new_max_parallelism, cuts
    )
    return b"".join(map(bytes, HeapWriter(parsed, new_max_parallelism).write(7, runs)))


@given(
    st.data(), st.sampled_from(KEY_TYPES), st.sampled_from([LONG, TEXT]), MAXIMA, MAXIMA, st.lists(st.integers(1, 3))
)
@settings(max_examples=examples(60))
def test_heap_group_is_written_back_byte_for_byte(
    data: st.DataObject,
    key_type: JavaType,
    namespace_type: JavaType,
    old_max_parallelism: int,
    new_max_parallelism: int,
    cuts: list[int],
) -> None:
    """Includes empty lists and maps, and namespaces that make keys carry lengths."""
    states, snappy = states_with(namespace_type), data.draw(st.booleans())
    entries = {i: data.draw(drawn(state, key_type)) for i, state in enumerate(states)}
    header = keyed_header(*(state.info for state in states), key=key_type.snapshot, compressed=snappy)
    block = write_heap_group(7, key_type, states, entries, range(len(states)), snappy=snappy)
    assert rewritten_block(header, block, old_max_parallelism, new_max_parallelism, cuts) == block


@pytest.mark.parametrize("size", [1, 255, 256, 65535, 65536, 70000])
def test_keys_and_namespaces_of_any_length_are_written_back(size: int) -> None:
    """A record has a length after the key and after the namespace, in as many bytes as the length needs."""
    states = states_with(TEXT)[:1]
    header = keyed_header(states[0].info)
    text = TEXT.write((65,) * size)
    block = i32(7) + b"\0\0" + i32(1) + text + TEXT.write((66,)) + TEXT.write((67,))
    assert rewritten_block(header, block, 128, 1000, []) == block
    block = i32(7) + b"\0\0" + i32(1) + TEXT.write((66,)) + text + TEXT.write((67,))
    assert rewritten_block(header, block, 1000, 128, []) == block


def test_timers_of_a_heap_group_are_written_back() -> None:
    header = keyed_header(timers("_timer_state/event_a", STRING, VOID_NAMESPACE))
    elements = [timer(time, TEXT.write((65 + i,)), b"\0") for i, time in enumerate((-5, 7))]
    block = i32(7) + b"\0\0" + i32(2) + b"".join(elements)
    assert rewritten_block(header, block, 128, 1000, []) == block


def test_writer_gives_the_empty_heap_group() -> None:
    header = read_keyed_header(keyed_header(states_with(LONG)[0].info), "")
    assert HeapWriter(header, 128).empty(9) == empty_group(9, header)

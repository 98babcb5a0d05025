"""Blocks of empty key groups, against those that Flink wrote."""

from __future__ import annotations

import struct

import pytest

from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from support.snapshots import keyed_streams

HEAP_STREAMS = [
    (keyed, keyed.stream.parsed)
    for keyed in keyed_streams()
    if keyed.stream.framing is Framing.HEAP and keyed.stream.parsed is not None
]
STATE_SIZE_BY_COMPRESSION = {False: 6, True: 24}
"""Bytes of a state without entries: uncompressed (False) and compressed (True)."""


def states_of(block: bytes, header: KeyedHeader) -> list[bytes]:
    size = STATE_SIZE_BY_COMPRESSION[header.compressed]
    return [block[at : at + size] for at in range(4, len(block), size)]


@pytest.mark.parametrize("compressed", [False, True])
def test_empty_heap_groups_equal_those_of_flink(compressed: bool) -> None:
    """Except for the order of states: Flink takes the order of a hash map, and reads any order."""
    compared_count = 0
    for keyed, header in HEAP_STREAMS:
        for key_group, block in keyed.groups() if header.compressed is compressed else ():
            if len(block) == 4 + STATE_SIZE_BY_COMPRESSION[compressed] * len(header.states):
                compared_count += 1
                ours = empty_group(key_group, header)
                assert ours[:4] == block[:4] == struct.pack(">i", key_group), keyed.where
                assert sorted(states_of(ours, header)) == sorted(states_of(block, header)), keyed.where
    assert compared_count > 10


def test_empty_heap_group_without_states_has_only_its_key_group() -> None:
    key_serializer = HEAP_STREAMS[0][1].key_serializer
    assert empty_group(258, KeyedHeader(False, key_serializer, ())) == b"\x00\x00\x01\x02"

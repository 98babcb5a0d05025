"""Heap framing (`HeapSnapshotStrategy`, `HeapRestoreOperation`): the block of a key group without entries.

Heap streams have a block for every key group: its number, then for each state its id and a count of entries; when
compressed, each state is a snappy stream of its own. Entries carry no lengths, so only whole groups can move.
"""

from __future__ import annotations

import struct

from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.snappy import plain_stream

_KEY_GROUP = struct.Struct(">i")
_EMPTY_STATE = struct.Struct(">hi")


def is_empty_group(length: int, header: KeyedHeader) -> bool:
    """Whether a block of `length` bytes can only be one without entries: nothing shorter holds every state's count."""
    each = len(plain_stream(bytes(_EMPTY_STATE.size))) if header.compressed else _EMPTY_STATE.size
    return length == _KEY_GROUP.size + each * len(header.states)


def empty_group(key_group: int, header: KeyedHeader) -> bytes:
    """The block that Flink writes for a key group in which no state of `header` has an entry."""
    states = [_EMPTY_STATE.pack(state_id, 0) for state_id in range(len(header.states))]
    if header.compressed:
        states = [plain_stream(state) for state in states]
    return _KEY_GROUP.pack(key_group) + b"".join(states)

"""Heap framing (`HeapSnapshotStrategy`, `HeapRestoreOperation`): blocks without entries, and blocks with one entry.

A heap stream has a block for each key group: its number, then the id and the number of entries of each state, and the
entries. In a compressed stream, each state is a separate snappy stream. Entries have no lengths.
"""

from __future__ import annotations

import struct

from rescale.flink.advice import CANONICAL
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.snappy import plain_stream
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.value_format import format_value
from rescale.flink.state_meta_info import SerializerKey
from rescale.text.errors import SnapshotError, UnsupportedError

_KEY_GROUP = struct.Struct(">i")
_EMPTY_STATE = struct.Struct(">hi")


def is_empty_group(length: int, header: KeyedHeader) -> bool:
    """Whether a block of `length` bytes has no entries, because it is as short as the counts of all states."""
    each = len(plain_stream(bytes(_EMPTY_STATE.size))) if header.compressed else _EMPTY_STATE.size
    return length == _KEY_GROUP.size + each * len(header.states)


def empty_group(key_group: int, header: KeyedHeader) -> bytes:
    """Return the block of a key group in which no state of `header` has an entry, as Flink writes it."""
    states = [_EMPTY_STATE.pack(state_id, 0) for state_id in range(len(header.states))]
    if header.compressed:
        states = [plain_stream(state) for state in states]
    return _KEY_GROUP.pack(key_group) + b"".join(states)


def only_key(block: bytes, header: KeyedHeader) -> bytes:
    """Return the key of the only entry in the first state with entries, from the beginning of a key group's block.

    Raises `UnsupportedError` if there are several entries, or if the key cannot be delimited, and `SnapshotError` if
    the block ends too early.
    """
    reader = ByteReader(block)
    reader.raw(_KEY_GROUP.size)
    while not header.compressed:
        state_id, count = reader.u16(), reader.i32()
        if count == 0:
            continue
        if state_id >= len(header.states):
            raise SnapshotError(
                "a state id that the header does not know", expected=f"less than {len(header.states)}", found=state_id
            )
        namespace = header.states[state_id].serializer(SerializerKey.NAMESPACE)
        if count > 1 or namespace is None:
            break
        format_value(compile_program(namespace).tree, reader)
        begin = reader.position
        format_value(compile_program(header.key_serializer).tree, reader)
        return block[begin : reader.position]
    raise UnsupportedError("a key group in heap framing may have several keys", advice=CANONICAL)

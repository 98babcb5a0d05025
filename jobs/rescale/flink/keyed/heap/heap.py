"""Makes heap blocks without entries, and reads the key of a heap block with a single entry.

A heap stream (`HeapSnapshotStrategy`, `HeapRestoreOperation`) has a block for each key group: the number of the key
group, then, for each state, its id, its number of entries, and the entries. Entries have no lengths. In a compressed
stream, each state is a separate snappy stream.
"""

from __future__ import annotations

import struct

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.snappy import plain_stream
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.value_format import format_value
from rescale.flink.state_meta_info import SerializerKey
from rescale.text.errors import SnapshotError, UnsupportedError

_GROUP_NUMBER = struct.Struct(">i")
_STATE_HEAD = struct.Struct(">hi")


def is_empty_group(block_size: int, header: KeyedHeader) -> bool:
    """Whether a block of `block_size` bytes has no entries: it has room only for the id and the count of each state."""
    state_size = len(plain_stream(bytes(_STATE_HEAD.size))) if header.compressed else _STATE_HEAD.size
    return block_size == _GROUP_NUMBER.size + state_size * len(header.states)


def empty_group(key_group: int, header: KeyedHeader) -> bytes:
    """Return the block of a key group in which no state of `header` has an entry, as Flink writes it."""
    state_blocks = [_STATE_HEAD.pack(state_id, 0) for state_id in range(len(header.states))]
    if header.compressed:
        state_blocks = [plain_stream(state) for state in state_blocks]
    return _GROUP_NUMBER.pack(key_group) + b"".join(state_blocks)


def only_key(block: bytes, header: KeyedHeader) -> bytes:
    """Return the serialized key of the only entry in the first state with entries; `block` may be cut off.

    Raises `UnsupportedError` if the block is compressed, if this state has several entries, or if the end of the key is
    unknown. Raises `SnapshotError` if the block ends too early.
    """
    reader = ByteReader(block)
    reader.raw(_GROUP_NUMBER.size)
    while not header.compressed:
        state_id, entry_count = reader.u16(), reader.i32()
        if entry_count == 0:
            continue
        if state_id >= len(header.states):
            raise SnapshotError(
                "a state id that is not in the header", expected=f"less than {len(header.states)}", found=state_id
            )
        namespace_serializer = header.states[state_id].serializer(SerializerKey.NAMESPACE)
        if entry_count > 1 or namespace_serializer is None:
            break
        format_value(compile_program(namespace_serializer).tree, reader)
        begin = reader.position
        format_value(compile_program(header.key_serializer).tree, reader)
        return block[begin : reader.position]
    raise UnsupportedError("a key group in heap framing may have several keys", advice=RESCALE_CANONICAL_SAVEPOINT)

"""Operator state: elements by the offsets of a handle, and the header in front of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fuzzing.subject import Subject, joined, parts_of
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.metadata.handles import DistributionMode, OperatorStateOffsets
from rescale.flink.operator_state import element_extents, read_operator_state_header
from support.snapshots import content, element_streams

_MODES = list(DistributionMode)
_LARGEST_SEED_BYTES = 4096


def _seeds() -> Iterator[bytes]:
    """Yield seeds: mode and number of elements of each state, all offsets, and the bytes."""
    for element_stream in element_streams():
        stream = element_stream.stream
        if stream.extent.length > _LARGEST_SEED_BYTES:
            continue
        begin = stream.extent.start
        state_table = bytes(byte for state in stream.states for byte in (_MODES.index(state.mode), len(state.elements)))
        offsets = [element.start - begin for state in stream.states for element in state.elements]
        yield joined(
            state_table, struct.pack(f">{len(offsets)}q", *offsets), content(element_stream.snapshot, stream.extent)
        )


def _look(data: bytes) -> None:
    state_table, offset_bytes, stream = parts_of(data, 3)
    offsets = [offset for (offset,) in struct.iter_unpack(">q", offset_bytes[: len(offset_bytes) // 8 * 8])]
    states = []
    for state_index in range(len(state_table) // 2):
        mode, count = _MODES[state_table[2 * state_index] % len(_MODES)], state_table[2 * state_index + 1]
        states.append(OperatorStateOffsets(f"state {state_index}", mode, tuple(offsets[:count])))
        offsets = offsets[count:]
    extents = [extent for extents in element_extents(states, len(stream)) for extent in extents]
    assert all(0 <= start <= start + length <= len(stream) for start, length in extents)
    assert len(extents) == sum(len(state.offsets) for state in states)
    begin = min((start for start, _ in extents), default=len(stream))
    header = read_operator_state_header(stream[:begin], "stream")
    if header.compressed:
        for start, length in extents:
            element = stream[start : start + length]
            element_content = b"".join(decompressed([element], has_identifier=False))
            assert element_content == b"".join(decompressed([element[:7], element[7:]], has_identifier=False))


SUBJECT = Subject(_seeds, _look)

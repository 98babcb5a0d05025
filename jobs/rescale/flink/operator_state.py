"""File of operator state (`OperatorBackendSerializationProxy`): a header, then the elements of all states.

The operator handle has the offsets of the elements. An element ends at the next larger offset of any state, or at the
end of the file. In a compressed file, one snappy stream follows the header. Flink flushes this stream before each
element, so each element begins with a new chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescale.flink.advice import UPGRADE_OLD_STATE
from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.encoding.snappy import IDENTIFIER
from rescale.flink.extents import ends_by_offset
from rescale.flink.metadata.handles import DistributionMode, OperatorStateOffsets
from rescale.flink.serializers.snapshot import UnknownSerializerError
from rescale.flink.state_meta_info import StateMetaInfo, merge_state, read_bounded_states, read_state_list
from rescale.flink.state_starts import STATE_COUNT_SIZE, state_starts
from rescale.text.errors import SnapshotError

_VERSIONS = (5, 6)
_FIRST_VERSION_WITH_COMPRESSION = 6


@dataclass(frozen=True)
class OperatorStateHeader:
    """Header of a file of operator state.

    `version` is 5 up to Flink 1.17, and 6 since Flink 1.18. `list_states` are the states in SPLIT_DISTRIBUTE and UNION
    mode.
    """

    version: int
    compressed: bool
    list_states: tuple[StateMetaInfo, ...]
    broadcast_states: tuple[StateMetaInfo, ...]

    @property
    def states(self) -> tuple[StateMetaInfo, ...]:
        return (*self.list_states, *self.broadcast_states)


def read_operator_state_header(data: bytes, path: str) -> OperatorStateHeader:
    """Return the header in `data`, which must end after the header (if compressed, after the snappy identifier).

    `path` names the file in errors. Raises `SnapshotError` for a damaged header, and `UnknownSerializerError` if a
    serializer's class is unknown and the states cannot be delimited without it (`state_starts`).
    """
    reader = ByteReader(data, path)
    version = reader.i32()
    if version not in _VERSIONS:
        error = reader.error("an unknown version of operator state", at=0, expected="5 or 6", found=version)
        raise error.located(advice=UPGRADE_OLD_STATE if 0 < version < _VERSIONS[0] else None)
    compressed = version >= _FIRST_VERSION_WITH_COMPRESSION and reader.boolean()
    # Flink's reader expects the snappy identifier when it opens the file, so even a file without elements has it.
    identifier = IDENTIFIER if compressed else b""
    start = reader.position
    try:
        list_states, broadcast_states = read_state_list(reader), read_state_list(reader)
    except UnknownSerializerError as unknown:
        list_states, broadcast_states = _read_by_state_starts(
            ByteReader(data, path, start, len(data) - len(identifier)), unknown
        )
        reader.position = len(data) - len(identifier)
    at = reader.position
    if reader.raw(reader.remaining) != identifier:
        raise reader.error("the header does not end where the first element begins", at=at, expected=identifier.hex())
    return OperatorStateHeader(version, compressed, list_states, broadcast_states)


def _read_by_state_starts(reader: ByteReader, error: UnknownSerializerError) -> tuple[tuple[StateMetaInfo, ...], ...]:
    """Return the list states and the broadcast states, whose starts the module `state_starts` finds.

    The serializers of the states may be unknown. A count precedes each of the two lists. Raises `error` if the starts
    do not fit the counts.
    """
    starts = state_starts(reader)
    list_state_count = ByteReader(reader.data, position=reader.position).i16()
    list_starts, broadcast_starts = starts[:list_state_count], starts[list_state_count:]
    list_end = (*broadcast_starts, reader.end)[0] - STATE_COUNT_SIZE
    try:
        return read_bounded_states(reader, list_starts, list_end), read_bounded_states(
            reader, broadcast_starts, reader.end
        )
    except SnapshotError:
        raise error from None


def has_compressed_elements(data: bytes) -> bool:
    """Whether the elements of a file that begins with `data` are compressed; reads five bytes of the header."""
    reader = ByteReader(data)
    return reader.i32() >= _FIRST_VERSION_WITH_COMPRESSION and reader.boolean()


def write_operator_state_header(header: OperatorStateHeader) -> bytes:
    """Return the bytes of the header; the inverse of `read_operator_state_header`."""
    out = ByteWriter().i32(header.version)
    if header.version >= _FIRST_VERSION_WITH_COMPRESSION:
        out.boolean(header.compressed)
    for states in (header.list_states, header.broadcast_states):
        out.i16(len(states))
        for state in states:
            out.raw(state.raw)
    if header.compressed:
        out.raw(IDENTIFIER)
    return out.bytes()


def merge_operator_state_headers(headers: Sequence[OperatorStateHeader]) -> OperatorStateHeader:
    """Return a header with the states of all headers, in first-seen order.

    Raises `SnapshotError` if headers differ in version or compression, or describe a state in incompatible ways.
    """
    versions_and_compressions = {(header.version, header.compressed) for header in headers}
    if len(versions_and_compressions) > 1:
        raise SnapshotError(
            "the files of operator state of an operator differ in (version, compressed)",
            found=sorted(versions_and_compressions),
        )
    return OperatorStateHeader(
        headers[0].version,
        headers[0].compressed,
        _merged_states([state for header in headers for state in header.list_states]),
        _merged_states([state for header in headers for state in header.broadcast_states]),
    )


def _merged_states(states: Sequence[StateMetaInfo]) -> tuple[StateMetaInfo, ...]:
    states_by_name: dict[str, list[StateMetaInfo]] = {}
    for state in states:
        states_by_name.setdefault(state.name, []).append(state)
    return tuple(map(merge_state, states_by_name.values()))


def element_extents(states: Sequence[OperatorStateOffsets], size: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return (start, length) of the elements of each state, in a file of `size` bytes.

    A broadcast state is a single element. Raises `SnapshotError` for an offset outside the file, and for a broadcast
    state without exactly one offset.
    """
    for state in states:
        if state.mode is DistributionMode.BROADCAST and len(state.offsets) != 1:
            raise SnapshotError(
                "a broadcast state without exactly one offset", state=state.name, expected=1, found=len(state.offsets)
            )
        for offset in state.offsets:
            if not 0 <= offset <= size:
                raise SnapshotError(
                    "the offset of an element lies outside its file",
                    offset=offset,
                    state=state.name,
                    expected=f"0 to {size}",
                    found=offset,
                )
    end_by_offset = ends_by_offset((offset for state in states for offset in state.offsets), size)
    return tuple(tuple((offset, end_by_offset[offset] - offset) for offset in state.offsets) for state in states)

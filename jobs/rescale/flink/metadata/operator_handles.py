"""Reader and writer of operator state handles (`serializeOperatorStateHandle`)."""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.metadata.handles import (
    DistributionMode,
    EmptySegmentStream,
    FileMerging,
    HandleTag,
    OperatorHandle,
    OperatorStateOffsets,
    SegmentStream,
)
from rescale.flink.metadata.stream_handles import read_path, read_stream, unknown_tag_error, write_stream


def read_operator(reader: ByteReader) -> OperatorHandle | None:
    """Return the operator handle at the reader's position, None for tag 0. Raises `SnapshotError` if it is damaged."""
    at = reader.position
    match reader.u8():
        case HandleTag.NULL:
            return None
        case HandleTag.OPERATOR:
            return OperatorHandle(_read_states(reader), read_stream(reader, depth=1))
        case HandleTag.FILE_MERGING_OPERATOR:
            return _read_file_merging(reader)
    raise unknown_tag_error(reader, at, "operator state handle", "0, 4 or 17")


def write_operator(out: ByteWriter, handle: OperatorHandle | None) -> None:
    """Write an operator handle; the inverse of `read_operator`."""
    if handle is None:
        out.u8(HandleTag.NULL)
        return
    out.u8(HandleTag.FILE_MERGING_OPERATOR if handle.merging else HandleTag.OPERATOR)
    _write_states(out, handle.states)
    if handle.merging:
        out.utf(handle.merging.task_owned_dir).utf(handle.merging.shared_dir).boolean(handle.merging.is_empty)
    write_stream(out, handle.stream)


def read_flag(reader: ByteReader) -> bool:
    """Return a boolean. Raises `SnapshotError` for a byte other than 0 and 1, which Java never writes."""
    at = reader.position
    flag = reader.u8()
    if flag not in (0, 1):
        raise reader.error("not a boolean", at=at, expected="0 or 1", found=flag)
    return flag == 1


def _read_file_merging(reader: ByteReader) -> OperatorHandle:
    states = _read_states(reader)
    merging = FileMerging(read_path(reader), read_path(reader), read_flag(reader))
    at = reader.position
    stream = read_stream(reader, depth=1)
    if not isinstance(stream, SegmentStream | EmptySegmentStream):
        raise reader.error(
            "the stream of a file-merging handle is not a segment",
            at=at,
            expected="tag 15 or 16",
            found=reader.data[at],
        )
    return OperatorHandle(states, stream, merging)


def _read_states(reader: ByteReader) -> tuple[OperatorStateOffsets, ...]:
    states: dict[str, OperatorStateOffsets] = {}
    for _ in range(reader.count(item_size=7)):
        at = reader.position
        state = _read_state(reader)
        if state.name in states:
            raise reader.error("a state is listed twice", at=at, found=state.name).located(state=state.name)
        states[state.name] = state
    return tuple(states.values())


def _write_states(out: ByteWriter, states: tuple[OperatorStateOffsets, ...]) -> None:
    out.i32(len(states))
    for state in states:
        out.utf(state.name).u8(state.mode)
        out.i32(len(state.offsets)).i64s(state.offsets)


def _read_state(reader: ByteReader) -> OperatorStateOffsets:
    name = reader.utf()
    at = reader.position
    ordinal = reader.u8()
    if ordinal >= len(DistributionMode):
        raise reader.error("not a distribution mode", at=at, expected="0, 1 or 2", found=ordinal).located(state=name)
    return OperatorStateOffsets(name, DistributionMode(ordinal), reader.i64s(reader.count(item_size=8)))

"""Reader and writer of the channel state handles of unaligned checkpoints (`ChannelStateHandleSerializer`).

Up to metadata version 5, a handle has no type byte and describes one channel. In version 6, a type byte in front
distinguishes single from merged handles, and input from output.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_MERGED_CHANNELS
from rescale.flink.metadata.handles import ChannelHandle, MergedChannelHandle, SingleChannelHandle
from rescale.flink.metadata.stream_handles import read_stream, write_stream
from rescale.text.errors import UnsupportedError

INPUT_TYPES = (1, 3)
"""Type bytes of a single and of a merged handle (`ChannelStateHandleSerializerV2`)."""
OUTPUT_TYPES = (2, 4)


def read_channels(reader: ByteReader, version: int, types: tuple[int, int]) -> tuple[ChannelHandle, ...]:
    """Return the handles of one direction; `types` is `INPUT_TYPES` or `OUTPUT_TYPES`.

    Raises `SnapshotError` for a damaged handle, or a handle of the other direction.
    """
    has_type_bytes = version >= FIRST_VERSION_WITH_MERGED_CHANNELS
    return tuple(
        _read_typed(reader, types) if has_type_bytes else _read_single(reader)
        for _ in range(reader.count(item_size=18 if has_type_bytes else 25))
    )


def write_channels(out: ByteWriter, handles: tuple[ChannelHandle, ...], version: int, types: tuple[int, int]) -> None:
    """Write the handles of one direction. Raises `UnsupportedError` for a merged handle in a version below 6."""
    single_type, merged_type = types
    has_type_bytes = version >= FIRST_VERSION_WITH_MERGED_CHANNELS
    out.i32(len(handles))
    for handle in handles:
        if isinstance(handle, MergedChannelHandle):
            if not has_type_bytes:
                raise UnsupportedError(
                    f"metadata version {version} has no place for merged channel state",
                    expected=f"version {FIRST_VERSION_WITH_MERGED_CHANNELS} or later",
                    advice="take a savepoint: it holds no channel state",
                )
            out.u8(merged_type)
            _write_merged(out, handle)
        else:
            if has_type_bytes:
                out.u8(single_type)
            _write_single(out, handle)


def _read_typed(reader: ByteReader, types: tuple[int, int]) -> ChannelHandle:
    single_type, merged_type = types
    at = reader.position
    type_byte = reader.u8()
    if type_byte == single_type:
        return _read_single(reader)
    if type_byte == merged_type:
        return _read_merged(reader)
    raise reader.error(
        "not a channel state handle of this direction",
        at=at,
        expected=f"{single_type} or {merged_type}",
        found=type_byte,
    )


def _read_single(reader: ByteReader) -> SingleChannelHandle:
    return SingleChannelHandle(
        subtask=reader.i32(),
        group=reader.i32(),
        channel=reader.i32(),
        offsets=reader.i64s(reader.count(item_size=8)),
        state_size=reader.i64(),
        stream=read_stream(reader, depth=1),
    )


def _write_single(out: ByteWriter, handle: SingleChannelHandle) -> None:
    out.i32(handle.subtask).i32(handle.group).i32(handle.channel)
    out.i32(len(handle.offsets)).i64s(handle.offsets)
    out.i64(handle.state_size)
    write_stream(out, handle.stream)


def _read_merged(reader: ByteReader) -> MergedChannelHandle:
    return MergedChannelHandle(
        subtask=reader.i32(),
        state_size=reader.i64(),
        stream=read_stream(reader, depth=1),
        packed_offsets=reader.blob(),
    )


def _write_merged(out: ByteWriter, handle: MergedChannelHandle) -> None:
    out.i32(handle.subtask).i64(handle.state_size)
    write_stream(out, handle.stream)
    out.blob(handle.packed_offsets)

"""Reader and writer of stream handles (`serializeStreamStateHandle`): a tag of one byte, then the body.

The readers of all kinds of handles accept what Flink's loader accepts, and refuse what Flink's constructors refuse,
such as an empty path or a handle without a stream. The readers also refuse values that Flink reads and drops, so the
writer always gives the same bytes.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.flink.metadata.handles import (
    EmptySegmentStream,
    FileStream,
    HandleTag,
    InlineStream,
    KeyGroupsStream,
    RelativeFileStream,
    SegmentStream,
    Stream,
)
from rescale.text.errors import SnapshotError

MAX_NESTING = 16
"""Largest depth of nested handles. Flink nests two levels; the limit stops files that would exhaust the stack."""


def read_optional_stream(reader: ByteReader, depth: int = 0) -> Stream | None:
    """Return the stream handle at the reader's position, None for tag 0; `depth` is the number of enclosing handles.

    Raises `SnapshotError` for a damaged handle and for an unknown tag.
    """
    at = reader.position
    tag = reader.u8()
    if tag != HandleTag.NULL:
        check_nesting(reader, at, depth)
    match tag:
        case HandleTag.NULL:
            return None
        case HandleTag.INLINE:
            name = reader.utf()
            data = reader.blob()
            return InlineStream(name, data, position=reader.position - len(data))
        case HandleTag.FILE:
            size = _read_size(reader)
            return FileStream(read_path(reader), size)
        case HandleTag.RELATIVE_FILE:
            path = read_path(reader)
            return RelativeFileStream(path, _read_size(reader))
        case HandleTag.KEY_GROUPS:
            first, offsets = read_key_group_offsets(reader)
            return KeyGroupsStream(first, offsets, read_stream(reader, depth + 1))
        case HandleTag.SEGMENT:
            return _read_segment(reader)
        case HandleTag.EMPTY_SEGMENT:
            return EmptySegmentStream()
    raise unknown_tag_error(reader, at, "stream handle", "0, 1, 2, 3, 6, 15 or 16")


def write_stream(out: ByteWriter, stream: Stream | None) -> None:
    """Write a stream handle, or tag 0 for None; the inverse of `read_stream` and `read_optional_stream`."""
    match stream:
        case None:
            out.u8(HandleTag.NULL)
        case InlineStream():
            out.u8(HandleTag.INLINE).utf(stream.name).blob(stream.data)
        case FileStream():
            out.u8(HandleTag.FILE).i64(stream.size).utf(stream.path)
        case RelativeFileStream():
            out.u8(HandleTag.RELATIVE_FILE).utf(stream.path).i64(stream.size)
        case KeyGroupsStream():
            out.u8(HandleTag.KEY_GROUPS)
            write_key_group_offsets(out, stream.first_key_group, stream.offsets)
            write_stream(out, stream.stream)
        case SegmentStream():
            out.u8(HandleTag.SEGMENT).i64(stream.start).i64(stream.size).i32(stream.scope)
            out.utf(stream.path).utf(stream.logical_file_id)
        case EmptySegmentStream():
            out.u8(HandleTag.EMPTY_SEGMENT)


def read_stream(reader: ByteReader, depth: int) -> Stream:
    """Return the stream handle at the reader's position.

    Raises `SnapshotError` for tag 0 (no stream), and the errors of `read_optional_stream`.
    """
    at = reader.position
    stream = read_optional_stream(reader, depth)
    if stream is None:
        raise reader.error("a handle without a stream", at=at, expected="a stream handle", found="tag 0")
    return stream


def read_key_group_range(reader: ByteReader) -> tuple[int, int]:
    """Return the first key group and the number of key groups.

    Raises `SnapshotError` for key groups below 0, and beyond the largest max parallelism of Flink.
    """
    at = reader.position
    first, count = reader.i32(), reader.i32()
    if first < 0 or count < 0 or first + count > UPPER_BOUND_MAX_PARALLELISM:
        raise reader.error(
            "an impossible range of key groups",
            at=at,
            expected=f"within 0 to {UPPER_BOUND_MAX_PARALLELISM - 1}",
            found=f"{count} key groups from {first}",
        )
    return first, count


def write_key_group_range(out: ByteWriter, first: int, count: int) -> None:
    """Write a range of key groups; the inverse of `read_key_group_range`."""
    out.i32(first).i32(count)


def read_key_group_offsets(reader: ByteReader) -> tuple[int, tuple[int, ...]]:
    """Return the first key group, and the offsets of this and the following key groups (`KeyGroupRangeOffsets`)."""
    first, count = read_key_group_range(reader)
    return first, reader.i64s(count)


def write_key_group_offsets(out: ByteWriter, first: int, offsets: tuple[int, ...]) -> None:
    """Write the offsets of key groups; the inverse of `read_key_group_offsets`."""
    write_key_group_range(out, first, len(offsets))
    out.i64s(offsets)


def read_path(reader: ByteReader) -> str:
    """Return a path. Raises `SnapshotError` for an empty path, which Flink's `Path` also refuses."""
    at = reader.position
    path = reader.utf()
    if not path:
        raise reader.error("an empty path", at=at)
    return path


def check_nesting(reader: ByteReader, at: int, depth: int) -> None:
    """Raise `SnapshotError` if the handle at offset `at` is nested deeper than `MAX_NESTING`."""
    if depth >= MAX_NESTING:
        raise reader.error("handles are nested too deep", at=at, expected=f"at most {MAX_NESTING} levels")


def unknown_tag_error(reader: ByteReader, at: int, what: str, expected: str) -> SnapshotError:
    """Return the error for the unknown tag at offset `at`; `what` is the kind of handle that was expected."""
    tag = reader.data[at]
    return reader.error(f"not a tag of a {what} in Flink up to 2.3", at=at, expected=expected, found=tag)


def _read_size(reader: ByteReader) -> int:
    """Return the size of a file, -1 if the handle does not know it (`FileStateHandle`)."""
    at = reader.position
    size = reader.i64()
    if size < -1:
        raise reader.error("an impossible file size", at=at, expected="-1 or more", found=size)
    return size


def _read_segment(reader: ByteReader) -> SegmentStream:
    at = reader.position
    start, size, scope = reader.i64(), reader.i64(), reader.i32()
    if start < 0 or size < 0:
        raise reader.error("an impossible file segment", at=at, found=f"{size} bytes from {start}")
    if scope not in (0, 1):
        raise reader.error("not a scope of checkpointed state", at=at + 16, expected="0 or 1", found=scope)
    return SegmentStream(read_path(reader), start, size, scope, reader.utf())

"""Lists the streams that an operator's handles name, and the sizes that the handles record, without reading a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rescale.flink.metadata.checkpoint_metadata import OperatorState, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogDelta,
    ChangelogHandle,
    ChangelogStreamHandle,
    EmptySegmentStream,
    IncrementalHandle,
    InlineStream,
    InMemoryChangelogHandle,
    KeyedHandle,
    KeyGroupsHandle,
    KeyGroupsStream,
    Stream,
)

_CHANGE_HEAD_SIZE = 8
"""Bytes before a change in `_metadata`: key group and length."""


def streams_of(entry: OperatorState) -> Iterator[Stream | None]:
    """Yield every stream that the operator's handles name."""
    for subtask in entry.subtasks:
        state = subtask.state or SubtaskState()
        for operator_handle in (state.managed_operator, state.raw_operator):
            if operator_handle is not None:
                yield operator_handle.stream
        for keyed_handle in (state.managed_keyed, state.raw_keyed):
            yield from keyed_streams(keyed_handle)
        for channel in (*state.input_channels, *state.output_channels):
            yield channel.stream


def bytes_of(entry: OperatorState) -> int:
    """Return the size in bytes of all state of the operator, according to its handles."""
    size = 0
    for subtask in entry.subtasks:
        state = subtask.state or SubtaskState()
        handles: list[Iterable[Stream | None]] = [
            *([handle.stream] for handle in (state.managed_operator, state.raw_operator) if handle is not None),
            *(set(keyed_streams(handle)) for handle in (state.managed_keyed, state.raw_keyed)),
        ]
        size += sum(_size(stream) for streams in handles for stream in streams)
        size += sum(channel.state_size for channel in (*state.input_channels, *state.output_channels))
    return size


def _size(stream: Stream | None) -> int:
    match stream:
        case None | EmptySegmentStream():
            return 0
        case InlineStream():
            return len(stream.data)
        case KeyGroupsStream():
            return _size(stream.stream)
        case _:
            return max(stream.size, 0)


def keyed_streams(handle: KeyedHandle | None) -> Iterator[Stream | None]:
    """Yield every stream that a handle of keyed state names."""
    match handle:
        case KeyGroupsHandle():
            yield handle.stream
        case IncrementalHandle():
            yield handle.meta
            yield from (file.stream for file in (*handle.shared, *handle.private))
        case ChangelogStreamHandle():
            yield from (stream for _, stream in handle.change_sets)
        case ChangelogHandle():
            for part in (*handle.base, *handle.delta):
                yield from keyed_streams(part)


def has_changes(delta: ChangelogDelta) -> bool:
    return bool(delta.changes if isinstance(delta, InMemoryChangelogHandle) else delta.change_sets)


def bytes_of_changes(delta: ChangelogDelta) -> int:
    """Return the size of the changes in bytes, without the bytes of other writers in a shared file."""
    if isinstance(delta, ChangelogStreamHandle):
        return max(delta.state_size, 0)
    return sum(_CHANGE_HEAD_SIZE + len(change.data) for change in delta.changes)

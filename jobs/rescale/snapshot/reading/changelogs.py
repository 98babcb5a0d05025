"""Reader of the changes in a changelog, in the order in which they were made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from rescale.flink.keyed.changelog.change_sets import (
    METADATA_KEY_GROUP,
    LoggedChange,
    read_change_set,
    read_in_memory_changes,
)
from rescale.flink.keyed.changelog.logged_states import LoggedState, read_logged_state
from rescale.snapshot.keyed_state import ChangeSet
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import located

_CHUNK_BYTES = 1 << 20
_FIRST_CHUNK_BYTES = 1 << 16
"""Number of bytes to read at once for the descriptions of states, which stand at the start of a change set."""


def logged_changes(files: SnapshotFiles, change_sets: Sequence[ChangeSet]) -> Iterator[LoggedChange]:
    """Yield all changes of the change sets, in order. Errors name the file."""
    for change_set in change_sets:
        yield from _changes_with_file_in_errors(files, change_set, _CHUNK_BYTES)


def logged_states(files: SnapshotFiles, change_sets: Sequence[ChangeSet]) -> Iterator[LoggedState]:
    """Yield all states that the change sets describe. Errors name the file.

    In a change set of a file, the descriptions of states stand before all changes. Raises `UnknownSerializerError` if
    the class of a serializer is unknown.
    """
    for change_set in change_sets:
        changes = _changes_with_file_in_errors(files, change_set, _FIRST_CHUNK_BYTES)
        if change_set.offset is not None:
            changes = takewhile(_describes_state, changes)
        for change in filter(_describes_state, changes):
            with located(path=files.uri(change_set.extent)):
                state = read_logged_state(change[1])
            yield state


def _describes_state(change: LoggedChange) -> bool:
    return change[0] == METADATA_KEY_GROUP


def _changes_with_file_in_errors(
    files: SnapshotFiles, change_set: ChangeSet, chunk_size: int
) -> Iterator[LoggedChange]:
    chunks = files.chunks(change_set.extent, chunk_size)
    with located(path=files.uri(change_set.extent)):
        yield from (
            read_in_memory_changes(chunks) if change_set.offset is None else read_change_set(chunks, change_set.offset)
        )

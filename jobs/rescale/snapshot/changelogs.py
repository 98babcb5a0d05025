"""The changes that lie in a changelog: where, and read in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.keyed.changelog.change_sets import METADATA_GROUP, LoggedChange, read_change_set, read_listed
from rescale.flink.keyed.changelog.logged_states import LoggedState, read_logged_state
from rescale.snapshot.model import ChangeSet
from rescale.snapshot.snapshot_files import SnapshotFiles

_CHUNK = 1 << 20
_FIRST_CHUNK = 1 << 16
"""Bytes that are read at once of a file that many writers share, and for what stands in front of a set."""


def logged_changes(files: SnapshotFiles, sets: Sequence[ChangeSet]) -> Iterator[LoggedChange]:
    """All changes of some sets, in order. Errors name the file."""
    for one in sets:
        yield from _located(files, one, _CHUNK)


def logged_states(files: SnapshotFiles, sets: Sequence[ChangeSet]) -> Iterator[LoggedState]:
    """All states that are described in some sets, which do so in front of all else; errors name the file.

    Raises `UnknownSerializer` where a class is not known.
    """
    for one in sets:
        changes = _located(files, one, _FIRST_CHUNK)
        if one.offset is not None:
            changes = takewhile(_describes_state, changes)
        for change in filter(_describes_state, changes):
            try:
                state = read_logged_state(change[1])
            except (SnapshotError, UnsupportedError) as error:
                raise error.located(path=files.uri(one.extent)) from None
            yield state


def _describes_state(change: LoggedChange) -> bool:
    return change[0] == METADATA_GROUP


def _located(files: SnapshotFiles, one: ChangeSet, at_once: int) -> Iterator[LoggedChange]:
    chunks = files.chunks(one.extent, at_once)
    try:
        yield from read_listed(chunks) if one.offset is None else read_change_set(chunks, one.offset)
    except (SnapshotError, UnsupportedError) as error:
        raise error.located(path=files.uri(one.extent)) from None

"""Splits the changes of a changelog by key groups into windows of a bounded number of bytes.

A log is ordered by time. A small log is held in memory. For a larger one, the bytes of each key group are counted
first; then the changes are split into windows of consecutive key groups, each in its own scratch file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rescale.execution.sources.spans import key_group_runs
from rescale.flink.advice import MATERIALISE_CHANGELOG
from rescale.flink.arrays import Longs
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.changelog.change_sets import METADATA_KEY_GROUP
from rescale.flink.keyed.changelog.logged_states import read_change_head, read_logged_state
from rescale.flink.keyed.changelog.parsed_changes import RawChange
from rescale.flink.keyed.header import KeyedHeader
from rescale.snapshot.keyed_state import ChangeSet
from rescale.snapshot.reading.changelogs import logged_changes
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.files import owned
from rescale.storage.scratch import ScratchKind, scratch_directory, scratch_errors, scratch_folder
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import SnapshotError, UnsupportedError

WINDOW_BYTES = 32 * 1024 * 1024
"""Bytes of changes that are replayed at once; the resulting state takes several times as many."""

LARGEST_KEY_GROUP_BYTES = 512 * 1024 * 1024
"""Largest size of one key group's changes, in bytes."""

_CHANGE_OVERHEAD_BYTES = 64
"""Memory overhead of a change, in bytes."""

_CHANGE_HEAD = struct.Struct("<3I")
_MOST_BUFFERED_BYTES = 8 * 1024 * 1024


class LogWindows:
    """Splits the changes of `change_sets` in `key_groups` into windows; changes get the state ids of `header`."""

    def __init__(
        self, files: SnapshotFiles, change_sets: Sequence[ChangeSet], header: KeyedHeader, key_groups: KeyGroupRange
    ) -> None:
        self._files = files
        self._change_sets = change_sets
        self._id_by_name = {state.name: i for i, state in enumerate(header.states)}
        self._key_groups = key_groups

    @contextmanager
    def cut(self) -> Iterator[list[tuple[KeyGroupRange, Iterator[RawChange]]]]:
        """Provide windows that cover all key groups, in order, as (key groups, changes).

        The changes of a window can be read once, inside the block.
        """
        sizes = np.zeros(len(self._key_groups), np.int64)
        changes_in_memory: list[RawChange] = []
        total_bytes = 0
        for change in self._changes():
            size = len(change.data) + _CHANGE_OVERHEAD_BYTES
            sizes[change.key_group - self._key_groups.first] += size
            total_bytes += size
            if total_bytes <= WINDOW_BYTES:
                changes_in_memory.append(change)
            else:
                changes_in_memory.clear()
        if total_bytes <= WINDOW_BYTES:
            yield [(self._key_groups, iter(changes_in_memory))]
            return
        ranges = self._ranges(sizes)
        with scratch_errors(), scratch_folder(Path(scratch_directory()), ScratchKind.CHANGELOG) as directory:
            paths = [directory / str(i) for i in range(len(ranges))]
            self._spill(ranges, paths)
            yield [(window, _read_back(path)) for window, path in zip(ranges, paths, strict=True)]

    def _changes(self) -> Iterator[RawChange]:
        """Yield the changes, with the state ids of the header.

        The log has its own ids, and each description of a state in the log may assign a new one.
        """
        header_id_by_logged_id: dict[int, int] = {}
        for key_group, change in logged_changes(self._files, self._change_sets):
            if key_group == METADATA_KEY_GROUP:
                state = read_logged_state(change)
                if state.info.name not in self._id_by_name:
                    raise SnapshotError(
                        "a changelog describes a state that its header does not have",
                        path=self._files.uri(self._change_sets[0].extent),
                        state=state.info.name,
                        expected=", ".join(self._id_by_name),
                        found=state.info.name,
                        advice=Advice(SAME_COMMAND, ": the changelog was misread, or the source has changed"),
                    )
                header_id_by_logged_id[state.id] = self._id_by_name[state.info.name]
            elif key_group in self._key_groups:
                _, state_id = read_change_head(change)
                if state_id not in header_id_by_logged_id:
                    raise SnapshotError(
                        "a changelog has a change of a state that it has not described yet",
                        path=self._files.uri(self._change_sets[0].extent),
                        expected=f"one of {sorted(header_id_by_logged_id)}",
                        found=state_id,
                    )
                yield RawChange(header_id_by_logged_id[state_id], key_group, change)

    def _ranges(self, sizes: Longs) -> list[KeyGroupRange]:
        first_key_group = self._key_groups.first
        for key_group, size in enumerate(sizes.tolist(), first_key_group):
            if size > LARGEST_KEY_GROUP_BYTES:
                raise UnsupportedError(
                    f"key group {key_group} has more changes than can be replayed at once",
                    path=self._files.uri(self._change_sets[0].extent),
                    expected=f"at most {LARGEST_KEY_GROUP_BYTES} bytes",
                    found=f"{size} bytes",
                    advice=MATERIALISE_CHANGELOG,
                )
        return [key_groups for key_groups, _ in key_group_runs(first_key_group, sizes.tolist(), WINDOW_BYTES)]

    def _spill(self, ranges: Sequence[KeyGroupRange], paths: Sequence[Path]) -> None:
        window_by_key_group = {group: i for i, window in enumerate(ranges) for group in window}
        buffers = [bytearray() for _ in paths]
        buffered_bytes = 0
        for state_id, key_group, data in self._changes():
            buffers[window_by_key_group[key_group]] += _CHANGE_HEAD.pack(state_id, key_group, len(data)) + data
            buffered_bytes += _CHANGE_HEAD.size + len(data)
            if buffered_bytes > _MOST_BUFFERED_BYTES:
                _append_to_files(buffers, paths)
                buffered_bytes = 0
        _append_to_files(buffers, paths)


def _append_to_files(buffers: Sequence[bytearray], paths: Sequence[Path]) -> None:
    for buffer, path in zip(buffers, paths, strict=True):
        with owned.open_to_append(path) as file:
            file.write(buffer)
        buffer.clear()


def _read_back(path: Path) -> Iterator[RawChange]:
    data, at = path.read_bytes(), 0
    while at < len(data):
        state_id, key_group, size = _CHANGE_HEAD.unpack_from(data, at)
        at += _CHANGE_HEAD.size + size
        yield RawChange(state_id, key_group, data[at - size : at])

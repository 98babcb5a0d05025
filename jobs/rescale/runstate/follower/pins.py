"""Pins: files of a job's checkpoints, kept beside a target for as long as a follower needs them.

Flink deletes a file once no retained checkpoint uses it. A pin is a hard link to the file, or a copy. Pins have the
same relative paths as the files in the job's checkpoint directory, so a pinned checkpoint is opened like one that was
moved to the directory of the pins. The name of that directory is a hash of the checkpoint directory's URI: a restarted
job has another checkpoint directory, but rounds of its earlier checkpoints may still need their pins. Files from
elsewhere, such as a savepoint that the job was restored from, are pinned in subdirectories that are also named by
hashes.

The `_metadata` of a checkpoint is pinned last and removed first: if it exists, all files that it names are pinned. A
file has one pin, however many checkpoints refer to it. So only the new files of a checkpoint are pinned, and the pins
of a checkpoint that vanished meanwhile serve the next checkpoint.

For a checkpoint *between* two rounds, only flushed SST files are pinned: the next round looks for changed keys in them.
SST files of level 1 and higher, which compactions write, are left out. The `_metadata` is pinned as `_flushed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from rescale.runstate.follower.removal import FLUSHED, delete_in_order
from rescale.runstate.places import Places, pins_place
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.model import Snapshot
from rescale.snapshot.moves import Move
from rescale.snapshot.reading.discovery import METADATA, checkpoint_directory, complete_checkpoints
from rescale.snapshot.reading.file_list import list_files
from rescale.snapshot.reading.opening import open_candidate, open_snapshot
from rescale.storage.contract import Pin, Span
from rescale.storage.keeping import keep
from rescale.storage.locations import contains, join, name, parent
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store, stats_of
from rescale.text.errors import SnapshotError, UnsupportedError

_ELSEWHERE_FOLDER = "elsewhere"
_HASH_DIGITS = 16

_MOST_CHECKPOINTS_BETWEEN = 100
"""Largest number of checkpoints between two rounds that are opened; if there are more, none is opened."""

_OPEN_AT_ONCE = 4
"""Number of checkpoints between two rounds that are opened together: each takes more memory than its `_metadata`."""


@dataclass(frozen=True)
class PinnedCheckpoint:
    """A checkpoint whose files are all pinned; `moves` map the job's directories to those of the pins."""

    checkpoint: int
    directory: str
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Pins:
    """The pins beside `target` of a job's checkpoints; `checkpoints` is the job's checkpoint directory."""

    target: str
    checkpoints: str
    allow_prefixes: tuple[str, ...] = ()

    @property
    def directory(self) -> str:
        """URI of the directory with the pins of this checkpoint directory."""
        return join(pins_place(self.target), _hashed_name(self.checkpoints))

    def pin(self, checkpoint: int) -> PinnedCheckpoint:
        """Pin the files of a checkpoint that are not pinned yet.

        Raises `SnapshotError` if a file is gone, because Flink has deleted it.
        """
        metadata_uri = join(checkpoint_directory(self.checkpoints, checkpoint), METADATA)
        file_list = list_files(metadata_uri, self.allow_prefixes)
        size_by_uri = {entry.uri: entry.size for entry in open_store(self.directory).list(self.directory)}
        missing_files: list[Span] = []
        for uri, version in stats_of(file_list.uris).items():
            size = size_by_uri.get(self._pin_uri(uri))
            if version is None and size is None:
                raise SnapshotError("a file of the checkpoint is gone", path=uri)
            if version is not None and version.size != size:
                missing_files.append(_whole_file(uri, version))
        side_by_side(self._keep, missing_files)
        self._keep(_whole_file(metadata_uri, file_list.metadata_pin))
        return self._pinned_checkpoint(checkpoint, file_list.uris)

    def pin_flushed(self, checkpoint: int) -> None:
        """Pin the files of a checkpoint, except SST files that compactions wrote.

        Raises `SnapshotError` if Flink deletes a file before it is pinned.
        """
        snapshot = with_tables(open_snapshot(checkpoint_directory(self.checkpoints, checkpoint), self.allow_prefixes))
        compacted_file_numbers, flushed_file_numbers = set[int](), set[int]()
        for database in (database for operator in snapshot.operators for database in operator.databases):
            compacted_names = {table.file.name for table in database.tables if table.file.level > 0}
            for file in database.files:
                (compacted_file_numbers if file.name in compacted_names else flushed_file_numbers).add(file.extent.file)
        omitted_file_numbers = {
            0,
            *(compacted_file_numbers - flushed_file_numbers),
        }  # 0 is `_metadata`, which is pinned last
        size_by_uri = {entry.uri: entry.size for entry in open_store(self.directory).list(self.directory)}
        files = [
            _whole_file(uri, pin)
            for number, (uri, pin) in enumerate(snapshot.files)
            if number not in omitted_file_numbers
        ]
        side_by_side(self._keep, [file for file in files if size_by_uri.get(self._pin_uri(file.uri)) != file.length])
        uri, pin = snapshot.files[0]
        keep(self._metadata_uri(checkpoint, FLUSHED), _whole_file(uri, pin), Places(self.target, "").staging)

    def flushed_numbers(self) -> list[int]:
        """Return the numbers of checkpoints whose flushed files are all pinned, in order."""
        return complete_checkpoints(self.directory, FLUSHED)

    def open_flushed(self, number: int) -> Snapshot:
        """Open a checkpoint whose flushed SST files are pinned; its other SST files are missing."""
        metadata_uri = self._metadata_uri(number, FLUSHED)
        moves = self._moves(self._original_uris(number, FLUSHED))
        return open_candidate(metadata_uri, parent(metadata_uri), self.allow_prefixes, moves=moves)

    def open_between(self, earlier: int, later: int) -> Iterator[list[Snapshot]]:
        """Open the checkpoints after `earlier` and before `later` whose flushed files are all pinned, a few at a time.

        Yields nothing if there are more than `_MOST_CHECKPOINTS_BETWEEN` such checkpoints, and leaves out checkpoints
        that cannot be read.
        """
        pinned_numbers = [number for number in self.flushed_numbers() if earlier < number < later]
        for start in range(
            0, len(pinned_numbers) if len(pinned_numbers) <= _MOST_CHECKPOINTS_BETWEEN else 0, _OPEN_AT_ONCE
        ):
            snapshots = side_by_side(self._open_if_readable, pinned_numbers[start : start + _OPEN_AT_ONCE])
            yield [snapshot for snapshot in snapshots if snapshot is not None]

    def _open_if_readable(self, number: int) -> Snapshot | None:
        with suppress(SnapshotError, UnsupportedError):
            return self.open_flushed(number)
        return None

    def checkpoint_numbers(self) -> list[int]:
        """Return the numbers of checkpoints of which all files are pinned, in order."""
        return complete_checkpoints(self.directory)

    def newest(self) -> PinnedCheckpoint | None:
        """Return the newest checkpoint whose files are all pinned; None if there is none."""
        numbers = self.checkpoint_numbers()
        return self.checkpoint(numbers[-1]) if numbers else None

    def checkpoint(self, number: int) -> PinnedCheckpoint:
        """Return a checkpoint whose files are all pinned."""
        return self._pinned_checkpoint(number, self._original_uris(number))

    def file_uris(self, number: int) -> set[str]:
        """Return the URIs of the pinned files of a checkpoint; none unless all its files are pinned."""
        return (
            {self._pin_uri(uri) for uri in self._original_uris(number)}
            if number in self.checkpoint_numbers()
            else set()
        )

    def remove_all_but(self, checkpoints: Collection[int], flushed_checkpoints: Collection[int] = ()) -> None:
        """Remove all pins except the files of `checkpoints` and the flushed files of `flushed_checkpoints`.

        Pins of an earlier start of the job stay as long as one of `checkpoints` is from that start.
        """
        pinned_numbers = {*checkpoints}.intersection(self.checkpoint_numbers())
        store = open_store(self.directory)
        place = self.directory if len(pinned_numbers) < len(checkpoints) else pins_place(self.target)
        needed_uris = set[str]()
        for checkpoint, metadata_name in [
            *((n, METADATA) for n in pinned_numbers),
            *((n, FLUSHED) for n in flushed_checkpoints),
        ]:
            needed_uris.add(self._metadata_uri(checkpoint, metadata_name))
            needed_uris |= {self._pin_uri(uri) for uri in self._original_uris(checkpoint, metadata_name)}
        unneeded_uris = [entry.uri for entry in store.list(place) if entry.uri not in needed_uris]
        delete_in_order(store, unneeded_uris)

    def _original_uris(self, checkpoint: int, metadata_name: str = METADATA) -> tuple[str, ...]:
        """Return the original URIs of a pinned checkpoint's files, in the job's directory."""
        metadata_uri = join(checkpoint_directory(self.checkpoints, checkpoint), METADATA)
        return list_files(metadata_uri, self.allow_prefixes, self._metadata_uri(checkpoint, metadata_name)).uris

    def _metadata_uri(self, checkpoint: int, metadata_name: str = METADATA) -> str:
        """Return the URI of a pinned checkpoint's metadata file; `metadata_name` is `_metadata` or `_flushed`."""
        return join(checkpoint_directory(self.directory, checkpoint), metadata_name)

    def _keep(self, source: Span) -> None:
        keep(self._pin_uri(source.uri), source, Places(self.target, "").staging)

    def _pin_uri(self, uri: str) -> str:
        if contains(self.checkpoints, uri):
            return join(self.directory, uri[len(self.checkpoints) :].lstrip("/"))
        return join(self._place_of_directory(parent(uri)), name(uri))

    def _place_of_directory(self, directory: str) -> str:
        """Return the directory for pins of files from `directory`, which is outside the job's checkpoint directory."""
        return join(self.directory, f"{_ELSEWHERE_FOLDER}/{_hashed_name(directory)}")

    def _pinned_checkpoint(self, checkpoint: int, uris: Collection[str]) -> PinnedCheckpoint:
        return PinnedCheckpoint(checkpoint, checkpoint_directory(self.directory, checkpoint), self._moves(uris))

    def _moves(self, uris: Collection[str]) -> tuple[Move, ...]:
        outside_directories = sorted({parent(uri) for uri in uris if not contains(self.checkpoints, uri)})
        return Move(self.checkpoints, self.directory), *(
            Move(folder, self._place_of_directory(folder)) for folder in outside_directories
        )


def _hashed_name(directory: str) -> str:
    return hashlib.sha256(directory.encode()).hexdigest()[:_HASH_DIGITS]


def _whole_file(uri: str, version: Pin) -> Span:
    return Span(uri, 0, version.size, version)

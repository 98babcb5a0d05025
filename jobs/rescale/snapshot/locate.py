"""Finds the bytes that state handles name, and checks that each handle may point to its file.

Every stream of a snapshot is an extent of a file: inline state is an extent of `_metadata` itself, and a segment is an
extent of a merged file. A damaged or forged `_metadata` must not make Rescale read other files. So handles may point
into the snapshot's directory, for a checkpoint also into its job's directory, and elsewhere only if the user allows it.
Moved files are read only from their new location.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rescale.flink.metadata.handles import (
    EmptySegmentStream,
    FileStream,
    InlineStream,
    KeyGroupsStream,
    RelativeFileStream,
    SegmentStream,
    Stream,
)
from rescale.snapshot.moves import Move, is_checkpoint_directory, moved_place, normalised_place
from rescale.storage.locations import contains, is_s3, join, normalise, parent
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, SnapshotError, UnsupportedError
from rescale.text.names import quoted

WRITTEN_FILE_NUMBER = -1
"""File number of extents in `Snapshot.written_bytes`: these bytes replace bytes of the files."""


class Extent(NamedTuple):
    """Range of bytes in file number `file` of the snapshot, or in `Snapshot.written_bytes` (`WRITTEN_FILE_NUMBER`)."""

    file: int
    start: int
    length: int

    def part(self, start: int, length: int) -> Extent:
        """Return a part of the extent; `start` counts from the start of the extent."""
        return Extent(self.file, self.start + start, length)


class Locator:
    """Finder of the extents of stream handles, which collects the files that the handles name; file 0 is `_metadata`.

    `whole_sizes` maps the number of each file that a handle names as a whole to the size in that handle. `moved_places`
    maps the recorded places of moved files to their new places.
    """

    def __init__(
        self, metadata_uri: str, directory: str, allow_prefixes: Sequence[str], moves: Sequence[Move] = ()
    ) -> None:
        self.directory = directory
        self.files: list[str] = [metadata_uri]
        self.whole_sizes: dict[int, int] = {}
        self.moved_places: dict[str, str] = {}
        self._moves = moves
        self._numbers: dict[str, int] = {}
        self._allowed_places = [self.directory, *allow_prefixes, *(move.new for move in moves)]
        if is_checkpoint_directory(self.directory):
            self._allowed_places.append(parent(self.directory))

    def extent(self, stream: Stream | None) -> Extent | None:
        """Return the extent of the stream's bytes; None for a handle without bytes.

        Raises `SnapshotError` if the handle points outside the snapshot, or if two handles disagree about the size of a
        file. Raises `UnsupportedError` if the handle does not record the size, or names a file system that Rescale
        cannot read.
        """
        match stream:
            case None | EmptySegmentStream():
                return None
            case InlineStream():
                return Extent(0, stream.position, len(stream.data))
            case RelativeFileStream():
                return self._whole_file(join(self.directory, stream.path), stream.size)
            case FileStream():
                return self._whole_file(self._absolute_uri(stream.path), stream.size)
            case SegmentStream():
                return Extent(self._number_of(self._absolute_uri(stream.path)), stream.start, stream.size)
            case KeyGroupsStream():
                return self.extent(stream.stream)

    def _whole_file(self, uri: str, size: int) -> Extent:
        if size < 0:  # `FsCheckpointStateOutputStream` writes -1 if the file's stream does not tell its position
            raise UnsupportedError(
                "a handle does not record the size of its file, because Flink did not know the size",
                path=uri,
                advice="take another snapshot",
            )
        number = self._number_of(uri)
        if self.whole_sizes.setdefault(number, size) != size:
            raise SnapshotError(
                "two handles disagree about the size of a file",
                path=uri,
                expected=self.whole_sizes[number],
                found=size,
            )
        return Extent(number, 0, size)

    def _absolute_uri(self, path: str) -> str:
        recorded_path = normalised_place(path)
        if (place := moved_place(recorded_path, self._moves)) is not None:
            self.moved_places[recorded_path] = place
            return place
        try:
            return normalise(path)
        except RequestError as error:
            raise UnsupportedError(
                "a handle points to a place that Rescale cannot read",
                path=self.files[0],
                expected=error.expected,
                found=path,
                advice=Advice(
                    f"copy the files below {quoted(path.rpartition('/')[0])} to a local directory or to S3, and give "
                    "the new place: ",
                    mention("moved", "OLD=NEW"),
                    ". If the new place is the directory of the snapshot, Rescale finds the files by itself",
                ),
            ) from None

    def _number_of(self, uri: str) -> int:
        if uri not in self._numbers:
            self._refuse_outside(uri)
            self._numbers[uri] = len(self.files)
            self.files.append(uri)
        return self._numbers[uri]

    def _refuse_outside(self, uri: str) -> None:
        is_local_from_s3 = is_s3(self.directory) and not is_s3(uri)
        if is_local_from_s3 or not any(contains(allowed_place, uri) for allowed_place in self._allowed_places):
            raise SnapshotError(
                "a handle points outside the snapshot",
                path=self.files[0],
                expected=" or ".join(f"below {allowed_place}" for allowed_place in self._allowed_places),
                found=uri,
                advice="take a savepoint, whose files all lie in its own directory"
                if is_local_from_s3
                else Advice(
                    "if the file belongs to the job, allow its place: ",
                    mention("allow-prefix", parent(uri)),
                    "; if the snapshot was moved, give the new place of its files: ",
                    mention("moved", "OLD=NEW"),
                ),
            )

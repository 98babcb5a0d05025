"""Where the bytes of state handles lie, and whether they may lie there.

Every stream of a snapshot is an extent of some file: inline state is an extent of `_metadata` itself, a segment
one of a merged file. A damaged or forged `_metadata` must not make us read elsewhere: handles may point into the
snapshot's directory, for a checkpoint also into its job's directory, and beyond only where the user allows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rescale.errors import RequestError, SnapshotError, UnsupportedError
from rescale.flink.metadata.handles import (
    EmptySegmentStream,
    FileStream,
    InlineStream,
    KeyGroupsStream,
    RelativeFileStream,
    SegmentStream,
    Stream,
)
from rescale.names import quoted
from rescale.storage.locations import contains, is_s3, join, name, normalise, parent

_CHECKPOINT_DIRECTORY = re.compile(r"chk-[0-9]+")


def is_checkpoint_directory(directory: str) -> bool:
    """Whether Flink would call a checkpoint's directory so: `chk-N`."""
    return _CHECKPOINT_DIRECTORY.fullmatch(name(directory)) is not None


WRITTEN = -1
"""In the place of a file's number: bytes that no file of the snapshot has, but we have written."""


class Extent(NamedTuple):
    """`length` bytes from `start` of file number `file` of the snapshot, or of what is `WRITTEN`."""

    file: int
    start: int
    length: int

    def part(self, start: int, length: int) -> Extent:
        return Extent(self.file, self.start + start, length)


class Locator:
    """Turns stream handles into extents and collects the files that they name; file 0 is `_metadata`.

    `whole_sizes` says how long each file must be, where a handle says so.
    """

    def __init__(self, metadata_uri: str, directory: str, allow_prefixes: Sequence[str]) -> None:
        self.directory = directory
        self.files: list[str] = [metadata_uri]
        self.whole_sizes: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._allowed = [self.directory, *allow_prefixes]
        if is_checkpoint_directory(self.directory):
            self._allowed.append(parent(self.directory))

    def extent(self, stream: Stream | None) -> Extent | None:
        """Where the stream's bytes lie; None for a handle without any."""
        match stream:
            case None | EmptySegmentStream():
                return None
            case InlineStream():
                return Extent(0, stream.position, len(stream.data))
            case RelativeFileStream():
                return self._whole(join(self.directory, stream.path), stream.size)
            case FileStream():
                return self._whole(self._absolute(stream.path), stream.size)
            case SegmentStream():
                return Extent(self._number(self._absolute(stream.path)), stream.start, stream.size)
            case KeyGroupsStream():
                return self.extent(stream.stream)

    def _whole(self, uri: str, size: int) -> Extent:
        if size < 0:  # `FsCheckpointStateOutputStream`, where the stream to the file did not tell its position
            raise UnsupportedError(
                "a handle does not say how large its file is: Flink could not tell when it wrote the file",
                path=uri,
                advice="take another snapshot",
            )
        number = self._number(uri)
        if self.whole_sizes.setdefault(number, size) != size:
            raise SnapshotError(
                "two handles disagree about the size of a file",
                path=uri,
                expected=self.whole_sizes[number],
                found=size,
            )
        return Extent(number, 0, size)

    def _absolute(self, path: str) -> str:
        try:
            return normalise(path)
        except RequestError as error:
            raise UnsupportedError(
                f"a handle points to a place that is not read: {error.what}",
                path=self.files[0],
                found=path,
                advice="take a savepoint to a local directory or to S3",
            ) from None

    def _number(self, uri: str) -> int:
        if uri not in self._numbers:
            self._check(uri)
            self._numbers[uri] = len(self.files)
            self.files.append(uri)
        return self._numbers[uri]

    def _check(self, uri: str) -> None:
        local_from_s3 = is_s3(self.directory) and not is_s3(uri)
        if local_from_s3 or not any(contains(allowed, uri) for allowed in self._allowed):
            raise SnapshotError(
                "a handle points outside the snapshot",
                path=self.files[0],
                expected=" or ".join(f"below {allowed}" for allowed in self._allowed),
                found=uri,
                advice="take a savepoint instead of a checkpoint with files of its own"
                if local_from_s3
                else f"if the file belongs to the job, allow its place: --allow-prefix {quoted(parent(uri))}",
            )

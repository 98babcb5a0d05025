"""The interface `Store`: the operations by which Rescale reads and writes all files.

The pipeline relies on three guarantees. An object appears whole or not at all. If several processes put different bytes
by `put_if_absent`, only one of them succeeds. A read with a pin returns the bytes of that version, or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from rescale.storage.checksums import Checksum
from rescale.text.errors import SnapshotError


def instant_of(mtime_ns: int) -> datetime | None:
    """Return a modification time (ns since 1970) in UTC, to the microsecond; None if `datetime` cannot represent it."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=mtime_ns // 1000)
    except OverflowError:
        return None


@dataclass(frozen=True)
class Pin:
    """A version of a file: its size in bytes, and its ETag (S3) or its modification time (local, ns since 1970)."""

    size: int
    etag: str | None = None
    mtime_ns: int | None = None

    def matches(self, other: Pin | None) -> bool:
        """Tell whether both pin the same version. ETags are compared without quotes, which some answers omit."""
        return other is not None and (self.size, self.mtime_ns, _bare_etag(self.etag)) == (
            other.size,
            other.mtime_ns,
            _bare_etag(other.etag),
        )

    def __str__(self) -> str:
        version_text = "" if self.etag is None else f", ETag {self.etag}"
        if self.mtime_ns is not None:
            instant, nanoseconds = instant_of(self.mtime_ns), self.mtime_ns % 10**9
            time_text = (
                f"{self.mtime_ns} ns after 1970"
                if instant is None
                else f"{instant:%Y-%m-%d %H:%M:%S}.{nanoseconds:09} UTC"
            )
            version_text = f", written {time_text}"
        return f"{self.size:,} bytes{version_text}"


@dataclass(frozen=True)
class Entry:
    """A file in a listing."""

    uri: str
    pin: Pin

    @property
    def size(self) -> int:
        return self.pin.size


class Span(NamedTuple):
    """Range of bytes of a file in the version `pin`."""

    uri: str
    start: int
    length: int
    pin: Pin

    @property
    def is_whole(self) -> bool:
        return (self.start, self.length) == (0, self.pin.size)


class CopyRefused(Exception):  # noqa: N818
    """The store does not copy this object itself, for the reason in the message: the caller must read and put it."""


class PartLimits(NamedTuple):
    """Limits of parts of a file: the smallest size in bytes of all but the last, and the largest number of parts."""

    smallest_part_bytes: int
    most_parts: int


class Store(Protocol):
    """Files of one kind of storage, by URI. Safe to use from many threads.

    Every method raises `StoreError` if another try may succeed, and `RequestError` if the user must act.
    """

    part_limits: PartLimits

    def stat(self, uri: str) -> Pin | None:
        """Return the version of a file; None if there is no file."""

    def stats(self, uris: Sequence[str]) -> list[Pin | None]:
        """Return `stat` of each file, in as few requests as possible."""

    def modification_time(self, uri: str) -> datetime | None:
        """Return the time when a file was written; None if there is no file."""

    def checksums(self, uri: str, pin: Pin) -> Sequence[Checksum]:
        """Return the checksums of the pinned version that the store computed itself, the strongest first."""

    def chunk_size(self, length: int, bytes_at_once: int | None = None) -> int:
        """Return the best size of one read in bytes, for a caller that needs `length` bytes.

        The caller processes `bytes_at_once` bytes together; None if any size suits the caller.
        """

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        """Return exactly `length` bytes from offset `start`.

        Raises `SnapshotError` if the file is too short, or is not in the pinned version.
        """

    def read_all(self, uri: str, limit_bytes: int) -> tuple[bytes, Pin]:
        """Return a whole file, and its version. Raises `SnapshotError` if it has more than `limit_bytes` bytes."""

    def put(self, uri: str, data: bytes | bytearray) -> None:
        """Put a small file, or replace it; a file with the same bytes may keep its version."""

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        """Put a file if it is absent; tell whether the existing or the new file holds exactly `data`."""

    def honours_conditions(self, uri: str, data: bytes) -> bool:
        """Tell whether the store refuses a second `put_if_absent`; `uri` was just put with `data`."""

    def list(self, directory: str, prefix: str = "") -> list[Entry]:
        """Return all files below a directory, sorted; none if there is no directory.

        If an entry lies directly in the directory and its name does not begin with `prefix`, it is left out, with all
        files below it. Raises `RequestError` if the directory may not be listed.
        """

    def folder_names(self, directory: str) -> Sequence[str]:
        """Return the names of the folders that lie directly in a directory, sorted; a folder may hold no file.

        This takes few requests, however many files lie in the folders. Raises the errors of `list`.
        """

    def delete(self, uris: Iterable[str]) -> None:
        """Delete files, if they exist, and directories that become empty."""

    def begin_parts(self, uri: str, staging: str) -> str:
        """Begin a file that several tasks write, and return the upload id that they need.

        `staging` is the directory for unfinished files, if the store needs one.
        """

    def put_part(self, uri: str, upload_id: str, number: int, offset: int, data: bytes | bytearray) -> str:
        """Write part `number` (from 1), which begins at `offset` of the file, and return its receipt."""

    def copy(self, uri: str, source: Span) -> None:
        """Put a whole file that the store copies from another of its files.

        Raises `SnapshotError` if the pinned version is gone and the store checks pins, and `CopyRefused` if the store
        does not copy this file.
        """

    def keep(self, uri: str, source: Span) -> None:
        """Copy a whole file as `copy` does, or create a hard link to it; neither file is ever written to afterwards."""

    def copy_part(self, uri: str, upload_id: str, number: int, offset: int, source: Span) -> str:
        """Write a part that the store copies itself from another of its files.

        Returns the same as `put_part`, and raises the same errors as `copy`.
        """

    def complete_parts(self, uri: str, upload_id: str, receipts: Sequence[str], size: int) -> None:
        """Make the file appear from its parts, unless it has already appeared with `size` bytes.

        `receipts` are what `put_part` and `copy_part` returned, in the order of the parts. A file that already has the
        same bytes may keep its version.
        """

    def abort_parts(self, uri: str, is_ours: Callable[[str], bool] | None = None) -> None:
        """Abort unfinished uploads of the file `uri`, or of files below the directory `uri`.

        `is_ours` tells by URI which uploads to abort; None aborts all. Uploads in progress stay, if the store can tell
        them from abandoned ones.
        """


def _bare_etag(etag: str | None) -> str | None:
    return etag.strip('"') if etag is not None else None


def holds_bytes(store: Store, uri: str, data: bytes | bytearray) -> bool:
    """Return whether a file or object has exactly these bytes."""
    try:
        return store.read_all(uri, len(data))[0] == data
    except SnapshotError:
        return False  # the file is larger than `data`, or does not exist any more

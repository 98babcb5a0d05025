"""The few verbs that everything is read and written with.

What they promise is what the pipeline rests on: an object appears whole or not at all, `put_if_absent` has one
winner, and a read with a pin gives the bytes of that version or an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from rescale.storage.checksums import Checksum


def instant_of(mtime_ns: int) -> datetime | None:
    """Of a modification time, in UTC, to the microsecond; None for one that no calendar has: a clock was broken."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=mtime_ns // 1000)
    except OverflowError:
        return None


@dataclass(frozen=True)
class Pin:
    """Which version of a file was seen: its size in bytes and its ETag (S3) or modification time (local)."""

    size: int
    etag: str | None = None
    mtime_ns: int | None = None

    def is_of(self, other: Pin | None) -> bool:
        """Whether both are of one version. ETags come with quotes or without, as the store and the request have it."""
        return other is not None and (self.size, self.mtime_ns, _bare(self.etag)) == (
            other.size,
            other.mtime_ns,
            _bare(other.etag),
        )

    def __str__(self) -> str:
        version = "" if self.etag is None else f", ETag {self.etag}"
        if self.mtime_ns is not None:
            instant, rest = instant_of(self.mtime_ns), self.mtime_ns % 10**9
            when = f"{self.mtime_ns} ns after 1970" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}.{rest:09} UTC"
            version = f", written {when}"
        return f"{self.size:,} bytes{version}"


@dataclass(frozen=True)
class Entry:
    """A file in a listing."""

    uri: str
    pin: Pin

    @property
    def size(self) -> int:
        """Bytes."""
        return self.pin.size


class Span(NamedTuple):
    """`length` bytes from `start` of a file in the version `pin`."""

    uri: str
    start: int
    length: int
    pin: Pin


class CopyRefused(Exception):  # noqa: N818
    """A store does not copy on its side, and says why: what is to be copied has to be read and put."""


class PartLimits(NamedTuple):
    """What a store wants of the parts of a file: bytes that each but the last must have, and how many there may be."""

    smallest: int
    most: int


class Store(Protocol):
    """Files of one kind of storage, by URI. Safe to use from many threads.

    Raises `StoreError` for what is worth another try, `RequestError` for what the user must set right.
    """

    part_limits: PartLimits

    def stat(self, uri: str) -> Pin | None:
        """None for a file that is not there."""

    def stats(self, uris: Sequence[str]) -> list[Pin | None]:
        """As `stat` of each, in as few requests as that takes."""

    def modified(self, uri: str) -> datetime | None:
        """When the file was written; None for a file that is not there."""

    def checksums(self, uri: str, pin: Pin) -> Sequence[Checksum]:
        """Those of the pinned version that the store has computed itself, the strongest one first."""

    def read_size(self, length: int, at_once: int | None = None) -> int:
        """How many bytes are best read at a time, of `length` that are used `at_once` together (None: as they come)."""

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        """Exactly `length` bytes from `start`; `SnapshotError` if they or the pinned version are not there."""

    def read_all(self, uri: str, limit: int, pin: Pin | None = None) -> tuple[bytes, Pin]:
        """A whole file of at most `limit` bytes, and the version that was read."""

    def put(self, uri: str, data: bytes) -> None:
        """A small file, whole; replaces what is there, unless that is the same: then its version may stay."""

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        """Whether the file now holds exactly `data`: put now, or found so (a lost answer, tried again)."""

    def honours_conditions(self, uri: str, data: bytes) -> bool:
        """Whether a second `put_if_absent` is turned away; `uri` was just put with `data`."""

    def list(self, directory: str, begin: str = "") -> list[Entry]:
        """Everything below a directory, sorted; nothing if it is not there. `RequestError` if it may not be listed.

        With `begin`, only its files whose names begin so, and all below those of its directories whose names do:
        nothing else is looked at.
        """

    def delete(self, uris: Iterable[str]) -> None:
        """Files that are not there are fine; directories that become empty go too."""

    def begin_parts(self, uri: str, staging: str) -> str:
        """Begins a file that several tasks write; returns the token that they need."""

    def put_part(self, uri: str, token: str, number: int, offset: int, data: bytes | bytearray) -> str:
        """Writes part `number` (from 1), which begins at `offset` of the file; returns its receipt."""

    def copy(self, uri: str, source: Span) -> None:
        """A whole file as `put` would put it, copied by the store, which holds both.

        `SnapshotError` if the pinned version is not there, as far as the store looks at pins; `CopyRefused`.
        """

    def copy_part(self, uri: str, token: str, number: int, offset: int, source: Span) -> str:
        """As `put_part` of the bytes of another file of the store, copied by the store; errors as `copy`."""

    def complete_parts(self, uri: str, token: str, receipts: Sequence[str], size: int) -> None:
        """Makes the file appear; fine if it has appeared already with that size.

        A file that is there with just these bytes may stay in its version.
        """

    def abort_parts(self, uri: str) -> None:
        """Abandons what was begun for a file, or below a directory, and never completed.

        What somebody is putting there this moment stays, where the store can tell.
        """


def _bare(etag: str | None) -> str | None:
    return etag.strip('"') if etag is not None else None

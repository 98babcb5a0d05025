"""The one way to read bytes of a snapshot: an extent of one of its files, in the version that was seen.

What is read at once is bounded, whatever a handle says: long extents come in chunks. Every error names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rescale.errors import SnapshotError
from rescale.snapshot.locate import WRITTEN, Extent
from rescale.storage.store import Pin, open_store, read_in_chunks

LARGEST_READ = 64 << 20
"""Bytes that are read at once."""


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of a snapshot with their versions, None where any will do; file 0 is `_metadata`.

    `metadata` are the bytes of that file where they are at hand. They stay here: who gets a copy of this value in
    another process reads them from storage. `written` are few bytes that are in no file, and go along.
    """

    versions: tuple[tuple[str, Pin | None], ...]
    metadata: bytes | None = field(default=None, repr=False, compare=False)
    written: bytes = field(default=b"", repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return SnapshotFiles, (self.versions, None, self.written)

    def uri(self, extent: Extent) -> str:
        """Of the file; of `_metadata` where there is none."""
        return self.versions[max(extent.file, 0)][0]

    def unpinned(self) -> SnapshotFiles:
        """The same files in whatever version they are."""
        return SnapshotFiles(tuple((uri, None) for uri, _ in self.versions), self.metadata, self.written)

    def read(self, extent: Extent, limit: int = LARGEST_READ) -> bytes:
        """All bytes of an extent; `SnapshotError` if it is longer than `limit`, gone or changed."""
        file, start, length = extent
        if file == WRITTEN:
            return self.written[start : start + length]
        uri, pin = self.versions[file]
        if length > limit:
            raise SnapshotError(
                "more is to be read at once than can be",
                path=uri,
                offset=start,
                expected=f"{limit} bytes",
                found=length,
            )
        if file == 0 and self.metadata is not None:
            return self.metadata[start : start + length]
        return open_store(uri).read(uri, start, length, pin)

    def beginning(self, extent: Extent, size: int) -> bytes:
        """The first `size` bytes of an extent, or all."""
        return self.read(extent._replace(length=min(extent.length, size)))

    def chunks(self, extent: Extent, at_once: int | None = None) -> Iterator[bytes]:
        """The bytes of an extent, at most `at_once` at a time (else as the store likes it)."""
        if extent.file == WRITTEN:
            yield self.read(extent)
            return
        uri, pin = self.versions[extent.file]
        for data in read_in_chunks(uri, extent.start, extent.length, pin, at_once):
            yield from (data[i : i + at_once] for i in range(0, len(data), at_once)) if at_once else (data,)

    def read_each(self, extents: Sequence[Extent]) -> list[bytes]:
        """The bytes of each extent and of nothing between them; those that lie end to end are read together."""
        contents: dict[int, bytes] = {}
        run: list[int] = []
        whole = Extent(0, 0, 0)
        for i in sorted(range(len(extents)), key=extents.__getitem__):
            follows = run and (whole.file, whole.start + whole.length) == extents[i][:2]
            if not follows or whole.length + extents[i].length > LARGEST_READ:
                contents |= self._split(extents, run, whole)
                run, whole = [], extents[i]._replace(length=0)
            run.append(i)
            whole = whole._replace(length=whole.length + extents[i].length)
        contents |= self._split(extents, run, whole)
        return [contents[i] for i in range(len(extents))]

    def _split(self, extents: Sequence[Extent], run: Sequence[int], whole: Extent) -> dict[int, bytes]:
        """The contents of extents that lie end to end, by their numbers."""
        data = self.read(whole) if run else b""
        begins = {i: extents[i].start - whole.start for i in run}
        return {i: data[begin : begin + extents[i].length] for i, begin in begins.items()}

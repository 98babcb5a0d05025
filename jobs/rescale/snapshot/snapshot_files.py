"""The only reader of a snapshot's bytes: it reads extents of the files, in their pinned versions.

A read is bounded, whatever length a handle claims: long extents come in chunks. Every error names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rescale.snapshot.locate import WRITTEN_FILE_NUMBER, Extent
from rescale.snapshot.read_counter import count_read_bytes
from rescale.storage.store import Pin, open_store, read_in_chunks
from rescale.text.errors import SnapshotError

LARGEST_READ_BYTES = 64 << 20
"""Largest number of bytes that are read at once."""


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of a snapshot with their pinned versions, None if any version will do; file 0 is `_metadata`.

    `metadata_bytes` are the bytes of `_metadata` if they were read. They are not pickled, because another process can
    read them from storage. `written_bytes` are bytes that Rescale put in place of others; they are pickled, as no file
    has them.
    """

    pinned_files: tuple[tuple[str, Pin | None], ...]
    metadata_bytes: bytes | None = field(default=None, repr=False, compare=False)
    written_bytes: bytes = field(default=b"", repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return SnapshotFiles, (self.pinned_files, None, self.written_bytes)

    def uri(self, extent: Extent) -> str:
        """Return the URI of the extent's file; for an extent in `written_bytes`, that of `_metadata`."""
        return self.pinned_files[max(extent.file, 0)][0]

    def without_pins(self) -> SnapshotFiles:
        """Return the same files without pinned versions."""
        return SnapshotFiles(
            tuple((uri, None) for uri, _ in self.pinned_files), self.metadata_bytes, self.written_bytes
        )

    def is_whole(self, extent: Extent) -> bool:
        """Tell whether an extent is a whole file with a pinned version."""
        pin = self.pinned_files[extent.file][1] if extent.file > 0 else None
        return pin is not None and (extent.start, extent.length) == (0, pin.size)

    def read(self, extent: Extent, limit: int = LARGEST_READ_BYTES) -> bytes:
        """Return all bytes of an extent. Raises `SnapshotError` if it is longer than `limit`, missing or changed."""
        file, start, length = extent
        if file == WRITTEN_FILE_NUMBER:
            return self.written_bytes[start : start + length]
        uri, pin = self.pinned_files[file]
        if length > limit:
            raise SnapshotError(
                "a part of a file is too long for one read",
                path=uri,
                offset=start,
                expected=f"{limit} bytes",
                found=length,
            )
        if file == 0 and self.metadata_bytes is not None:
            return self.metadata_bytes[start : start + length]
        return open_store(uri).read(uri, start, length, pin)

    def beginning(self, extent: Extent, size: int) -> bytes:
        """Return the first `size` bytes of an extent, or all bytes if it is shorter."""
        return self.read(extent._replace(length=min(extent.length, size)))

    def chunks(self, extent: Extent, bytes_at_once: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of an extent, at most `bytes_at_once` at a time; if it is None, the store decides."""
        if extent.file == WRITTEN_FILE_NUMBER:
            yield self.read(extent)
            return
        uri, pin = self.pinned_files[extent.file]
        for data in read_in_chunks(uri, extent.start, extent.length, pin, bytes_at_once):
            count_read_bytes(len(data))
            yield from (
                (data[i : i + bytes_at_once] for i in range(0, len(data), bytes_at_once)) if bytes_at_once else (data,)
            )

    def read_each(self, extents: Sequence[Extent]) -> list[bytes]:
        """Return the bytes of each extent; extents that lie end to end are read together."""
        bytes_by_index: dict[int, bytes] = {}
        indexes_of_run: list[int] = []
        run_extent = Extent(0, 0, 0)
        for i in sorted(range(len(extents)), key=extents.__getitem__):
            is_adjacent = indexes_of_run and (run_extent.file, run_extent.start + run_extent.length) == extents[i][:2]
            if not is_adjacent or run_extent.length + extents[i].length > LARGEST_READ_BYTES:
                bytes_by_index |= self._read_run(extents, indexes_of_run, run_extent)
                indexes_of_run, run_extent = [], extents[i]._replace(length=0)
            indexes_of_run.append(i)
            run_extent = run_extent._replace(length=run_extent.length + extents[i].length)
        bytes_by_index |= self._read_run(extents, indexes_of_run, run_extent)
        return [bytes_by_index[i] for i in range(len(extents))]

    def _read_run(self, extents: Sequence[Extent], indexes: Sequence[int], run_extent: Extent) -> dict[int, bytes]:
        """Read `run_extent`, and return the contents of the extents in it, by their `indexes` in `extents`."""
        data = self.read(run_extent) if indexes else b""
        start_by_index = {i: extents[i].start - run_extent.start for i in indexes}
        return {i: data[start : start + extents[i].length] for i, start in start_by_index.items()}

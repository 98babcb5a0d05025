"""Records of consecutive key groups of a canonical stream, read from storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rescale.execution.sources.chunks import Chunk
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.keyed.blocks.record_marks import ID_SIZE
from rescale.flink.keyed.blocks.records import RecordReader, Records
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import IntegrityError, SnapshotError, UnsupportedError

_UNREAD_START = np.iinfo(np.int64).max


class GroupRecords:
    """Reads the records of key groups that lie end to end, given as (key group, extent in `files`)."""

    def __init__(
        self,
        reader: RecordReader,
        files: SnapshotFiles,
        groups: Sequence[tuple[int, Extent]],
        *,
        is_compressed: bool,
    ) -> None:
        self._reader = reader
        self._files = files
        self._groups = groups
        self._size = 0  # bytes read so far, decompressed
        self._compressed = is_compressed
        self._starts = np.full(len(groups), _UNREAD_START, np.int64)

    def __iter__(self) -> Iterator[Records]:
        """Yield batches of records; errors name the file and the offset in it."""
        key_groups = np.array([key_group for key_group, _ in self._groups], np.int64)
        first_extent = self._groups[0][1]
        try:
            yield from self._reader.read(key_groups, self._starts, self._chunks())
        except (SnapshotError, UnsupportedError) as error:
            if self._compressed:
                error.offset = None  # the offset counts decompressed bytes, so it is no offset in the file
            elif error.path is None:
                error.offset = first_extent.start + (error.offset or 0)
            raise error.located(path=self._files.uri(first_extent)) from None

    def check_all_read(self, framed_bytes: int) -> None:
        """Raise `IntegrityError` unless the records and their framing add up to the bytes that were read.

        Without this check, bytes that are skipped in source and result alike would go unnoticed.
        """
        framed_bytes += ID_SIZE * len(self._groups)
        if self._size != framed_bytes:
            raise IntegrityError(
                "the records and their framing do not add up to the bytes of the key groups",
                expected=f"{self._size} bytes",
                found=f"{framed_bytes} bytes of records and their framing",
            )

    def _chunks(self) -> Iterator[Chunk]:
        """Yield the bytes of all groups; set the start of each group in `_starts` before yielding its bytes."""
        if not self._compressed:
            first_extent = self._groups[0][1]
            self._starts[:] = [extent.start - first_extent.start for _, extent in self._groups]
            whole_extent = first_extent._replace(length=sum(extent.length for _, extent in self._groups))
            yield from self._count_bytes(self._files.chunks(whole_extent))
            return
        for i, (_, extent) in enumerate(self._groups):
            self._starts[i] = self._size
            yield from self._count_bytes(decompressed(self._files.chunks(extent)))

    def _count_bytes(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._size += len(chunk)
            yield chunk

"""Reads raw keyed timers and heap state from storage, as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from rescale.execution.sources.chunks import Chunk, runs
from rescale.execution.sources.spans import group_runs, span
from rescale.flink.keyed.blocks.records import Records
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import SnapshotError, UnsupportedError


class BlockReader(Protocol):
    """Reads key groups, given as (number, chunks of bytes), to their last byte; yields their records as `Records`."""

    def read(self, key_groups: Iterable[tuple[int, Iterable[Chunk]]], /) -> Iterator[Records]: ...


class BlockRecords:
    """Reads the records of some key groups, given as (key group, extent in `files`)."""

    def __init__(self, reader: BlockReader, files: SnapshotFiles, groups: Sequence[tuple[int, Extent]]) -> None:
        self._reader = reader
        self._files = files
        self._groups = groups
        self._current_extent = Extent(0, 0, 0)

    def __iter__(self) -> Iterator[Records]:
        """Yield batches of records; errors name the file and the offset in it."""
        try:
            yield from self._reader.read(self._blocks())
        except (SnapshotError, UnsupportedError) as error:
            if error.path is None:
                error.offset = self._current_extent.start + (error.offset or 0)
            raise error.located(path=self._files.uri(self._current_extent)) from None

    def check_all_read(self, framed_bytes: int) -> None:
        """Check nothing, because the reader reads each key group to its last byte."""

    def _blocks(self) -> Iterator[tuple[int, Iterator[Chunk]]]:
        for run in group_runs(self._groups):
            extents = [extent for _, extent in run]
            chunks = runs(self._files.chunks(span(extents)), [extent.length for extent in extents])
            for (key_group, self._current_extent), block in zip(run, chunks, strict=True):
                yield key_group, block

"""The timers of raw keyed streams, read from storage as the records that canonical state has of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescale.errors import SnapshotError, UnsupportedError
from rescale.execution.sources.chunks import Chunk, runs
from rescale.execution.sources.spans import group_runs, span
from rescale.execution.validation.digests import read_chunks
from rescale.flink.keyed.records import Records
from rescale.flink.keyed.timer_reader import TimerReader
from rescale.snapshot.locate import Extent
from rescale.storage.store import Pin


class TimerRecords:
    """Reads the timers of (key group, extent)s of `files`."""

    def __init__(
        self, reader: TimerReader, files: Sequence[tuple[str, Pin | None]], groups: Sequence[tuple[int, Extent]]
    ) -> None:
        self._reader = reader
        self._files = files
        self._groups = groups
        self._extent = Extent(0, 0, 0)

    def __iter__(self) -> Iterator[Records]:
        """Errors name the file and the place in it."""
        try:
            yield from self._reader.read(self._blocks())
        except (SnapshotError, UnsupportedError) as error:
            if error.path is None:
                error.offset = self._extent.start + (error.offset or 0)
            raise error.located(path=self._files[self._extent.file][0]) from None

    def _blocks(self) -> Iterator[tuple[int, Iterator[Chunk]]]:
        for run in group_runs(self._groups):
            extents = [extent for _, extent in run]
            chunks = runs(read_chunks(self._files, span(extents)), [extent.length for extent in extents])
            for (key_group, self._extent), block in zip(run, chunks, strict=True):
                yield key_group, block

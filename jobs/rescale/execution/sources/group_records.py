"""The records of consecutive key groups of a stream, read from storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rescale.errors import IntegrityError, SnapshotError, UnsupportedError
from rescale.execution.sources.chunks import Chunk
from rescale.execution.writers.rewrite import decompressed
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.records import MOST_UNKNOWN_STATES, RecordReader, Records
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles

_NOT_YET = np.iinfo(np.int64).max


class GroupRecords:
    """Reads the records of (key group, extent)s of `files` that lie end to end.

    `size` are the bytes read so far, decompressed ones if the groups are `compressed`.
    """

    def __init__(
        self,
        reader: RecordReader,
        files: SnapshotFiles,
        groups: Sequence[tuple[int, Extent]],
        *,
        compressed: bool,
    ) -> None:
        self.size = 0
        self._reader = reader
        self._files = files
        self.groups = groups
        self._compressed = compressed
        self._starts = np.full(len(groups), _NOT_YET, np.int64)

    def __iter__(self) -> Iterator[Records]:
        """Errors name the file and the place in it."""
        numbers = np.array([key_group for key_group, _ in self.groups], np.int64)
        first = self.groups[0][1]
        try:
            yield from self._reader.read(numbers, self._starts, self._chunks())
        except (SnapshotError, UnsupportedError) as error:
            if self._compressed:
                error.offset = None  # it counts decompressed bytes
            elif error.path is None:
                error.offset = first.start + (error.offset or 0)
            raise error.located(path=self._files.uri(first)) from None

    def _chunks(self) -> Iterator[Chunk]:
        """The bytes of all groups; says where each begins when it comes to it."""
        if not self._compressed:
            first = self.groups[0][1]
            self._starts[:] = [extent.start - first.start for _, extent in self.groups]
            whole = first._replace(length=sum(extent.length for _, extent in self.groups))
            yield from self._counted(self._files.chunks(whole))
            return
        for i, (_, extent) in enumerate(self.groups):
            self._starts[i] = self.size
            yield from self._counted(decompressed(self._files.chunks(extent)))

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.size += len(chunk)
            yield chunk


def check_accounted(read: int, accounted: int) -> None:
    """Whoever skipped some records would find as few on both sides, and other bytes than he read."""
    if read != accounted:
        raise IntegrityError(
            "not every byte of the key groups was accounted for",
            expected=f"{read} bytes",
            found=f"{accounted} bytes of records and their framing",
        )


def states_of(header: KeyedHeader | None) -> tuple[list[str], list[bool]]:
    """By state id the names of the states, and whether they are maps; numbers where the header is not understood."""
    if header is None:
        return [f"state {i}" for i in range(MOST_UNKNOWN_STATES)], [False] * MOST_UNKNOWN_STATES
    return [state.name for state in header.states], [state.state_type == "MAP" for state in header.states]

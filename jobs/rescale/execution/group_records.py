"""The records of consecutive key groups of a stream, read from storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rescale.errors import SnapshotError
from rescale.execution.chunks import Chunk
from rescale.execution.digests import read_chunks
from rescale.execution.rewrite import decompressed
from rescale.flink.keyed.records import RecordReader, Records
from rescale.planning.locate import Extent
from rescale.storage.store import Pin

_NOT_YET = np.iinfo(np.int64).max


def group_records(
    reader: RecordReader,
    files: Sequence[tuple[str, Pin | None]],
    groups: Sequence[tuple[int, Extent]],
    *,
    compressed: bool,
) -> Iterator[Records]:
    """The records of (key group, extent)s that lie end to end; `SnapshotError` names the file and the place in it."""
    numbers = np.array([key_group for key_group, _ in groups], np.int64)
    path, begin = files[groups[0][1].file][0], groups[0][1].start
    starts = np.array([extent.start - begin for _, extent in groups], np.int64)
    if compressed:
        starts = np.full(len(groups), _NOT_YET, np.int64)
        chunks = _decompressed_groups(files, groups, starts)
    else:
        chunks = read_chunks(files, groups[0][1]._replace(length=sum(extent.length for _, extent in groups)))
    try:
        yield from reader.read(numbers, starts, chunks)
    except SnapshotError as error:
        if compressed:
            error.offset = None  # it counts decompressed bytes
        elif error.path is None:
            error.offset = begin + (error.offset or 0)
        raise error.located(path=path) from None


def _decompressed_groups(
    files: Sequence[tuple[str, Pin | None]], groups: Sequence[tuple[int, Extent]], starts: npt.NDArray[np.int64]
) -> Iterator[Chunk]:
    """The content of all groups, each of which is a snappy stream; says where each begins as it comes to it."""
    position = 0
    for i, (_, extent) in enumerate(groups):
        starts[i] = position
        for content in decompressed(read_chunks(files, extent)):
            position += len(content)
            yield content

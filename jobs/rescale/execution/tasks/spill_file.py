"""Writes and reads the file with the rows that one task sends to tasks on the same machine.

    File:   rows end to end  { offset:i64 size:i64 }*  { first:i64 }*

After the rows come two indexes. The first index has offset and size of each row, ordered by partition. The second index
has an entry for each partition: the number of its first entry in the first index. A last entry has the number of rows.
So a reader of a partition reads only its own rows and entries, and the size of a task's result does not depend on the
number of rows.

A file belongs to one attempt of a task, and is read only if the attempt succeeds: the result of the attempt names it
(`SpillFile`).
"""

from __future__ import annotations

import os
import uuid
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from rescale.flink.arrays import Longs
from rescale.storage.files import owned
from rescale.storage.scratch import scratch_errors
from rescale.text.errors import StoreError

_FILE_PREFIX = "rescale-shuffle-"
_LONG_SIZE = 8
_ENTRY_SIZE = 2 * _LONG_SIZE


class SpillFile(NamedTuple):
    """A file of rows: their total `size` in bytes, and their number (`row_count`)."""

    path: str
    size: int
    row_count: int


def spill(rows: Iterable[tuple[int, bytes]], partition_count: int, folder: str) -> SpillFile:
    """Write (partition, row) pairs to a new file in a folder; the file is deleted if that fails.

    Raises the errors of `scratch_errors`.
    """
    with scratch_errors(folder):
        path = Path(folder, f"{_FILE_PREFIX}{uuid.uuid4().hex}")
        file = os.fdopen(owned.new_file(path), "wb")
    try:
        size, row_count = _write_rows(rows, partition_count, file, folder)
        with scratch_errors(folder):
            file.close()
    except BaseException:
        with suppress(OSError):  # closing flushes the file, which may fail again
            file.close()
        owned.unlink(path)
        raise
    return SpillFile(str(path), size, row_count)


def rows_in(file: SpillFile, partition: int) -> Iterator[bytes]:
    """Yield the rows of a partition in the order in which they were sent. Raises `StoreError` if the file lacks any."""
    try:
        with open(file.path, "rb") as opened_file:
            for offset, size in _offsets_and_sizes(opened_file, file, partition).tolist():
                yield _read_exactly(opened_file, offset, size)
    except OSError as error:
        raise StoreError("rows are gone from the scratch directory", path=file.path, found=error.strerror) from None


def _write_rows(
    rows: Iterable[tuple[int, bytes]], partition_count: int, file: IO[bytes], folder: str
) -> tuple[int, int]:
    """Write the rows and both indexes; return the size in bytes and the number of all rows."""
    partition_numbers, sizes = array("q"), array("q")
    for partition, row in rows:
        with scratch_errors(folder):
            file.write(row)
        partition_numbers.append(partition)
        sizes.append(len(row))
    partition_of_row, offsets_and_sizes = np.array(partition_numbers, np.int64), np.empty((len(sizes), 2), np.int64)
    offsets_and_sizes[:, 1] = sizes
    offsets_and_sizes[:, 0] = np.cumsum(offsets_and_sizes[:, 1]) - offsets_and_sizes[:, 1]
    order = np.argsort(partition_of_row, kind="stable")
    first_row_indices = np.searchsorted(partition_of_row[order], np.arange(partition_count + 1))
    with scratch_errors(folder):
        file.write(offsets_and_sizes[order].tobytes() + first_row_indices.astype(np.int64).tobytes())
    return int(offsets_and_sizes[:, 1].sum()), len(sizes)


def _offsets_and_sizes(opened_file: IO[bytes], file: SpillFile, partition: int) -> Longs:
    """Return (offset, size) of every row of a partition."""
    index_start = file.size + file.row_count * _ENTRY_SIZE
    begin, end = np.frombuffer(
        _read_exactly(opened_file, index_start + partition * _LONG_SIZE, 2 * _LONG_SIZE), np.int64
    ).tolist()
    return np.frombuffer(
        _read_exactly(opened_file, file.size + begin * _ENTRY_SIZE, (end - begin) * _ENTRY_SIZE), np.int64
    ).reshape(-1, 2)


def _read_exactly(opened_file: IO[bytes], offset: int, size: int) -> bytes:
    opened_file.seek(offset)
    data = opened_file.read(size)
    if len(data) < size:
        raise OSError(0, f"the file ends after {offset + len(data)} bytes")
    return data

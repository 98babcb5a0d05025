"""The rows that a sending task leaves in a file, for tasks that see the same disk.

    File:   rows, one behind the other  { offset:i64 size:i64 }*  { first:i64 }*

Behind the rows lies where each of them is, in the order of their partitions; behind that which of these places is the
first one of each partition, and how many there are. So who wants a partition reads no more of all this than is its own,
and what a task has to tell is as short for many rows as for few.

A file belongs to one attempt of a task. It counts if that comes to its end: what an attempt has told that Spark takes
for lost, nobody asks for.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

import numpy as np

from rescale.errors import StoreError
from rescale.flink.arrays import Longs
from rescale.storage.scratch import no_room_for_rows

_PREFIX = "rescale-shuffle-"
_LONG = 8
_PLACE = 2 * _LONG


class SpillFile(NamedTuple):
    """`size` is that of all its `rows` together, in bytes."""

    path: str
    size: int
    rows: int


def spill(rows: Iterable[tuple[int, bytes]], partitions: int, folder: str) -> SpillFile:
    """Rows, each given with the number of its partition, in a new file of a folder; none is left if that fails.

    `StoreError` if there is no room for them.
    """
    with _room_in(folder):
        file = tempfile.NamedTemporaryFile(prefix=_PREFIX, dir=folder, delete=False)  # noqa: SIM115
    try:
        size, number = _write(rows, partitions, file, folder)
        with _room_in(folder):
            file.close()
    except BaseException:
        with suppress(OSError):  # of what could not be written either
            file.close()
        os.unlink(file.name)  # noqa: PTH108
        raise
    return SpillFile(file.name, size, number)


def rows_in(file: SpillFile, partition: int) -> Iterator[bytes]:
    """Those of one partition, in the order in which they were sent; `StoreError` if the file is not as it was."""
    try:
        with open(file.path, "rb") as content:
            for offset, size in _places(content, file, partition).tolist():
                yield _read(content, offset, size)
    except OSError as error:
        raise StoreError("rows are gone from the scratch directory", path=file.path, found=error.strerror) from None


def _write(rows: Iterable[tuple[int, bytes]], partitions: int, file: IO[bytes], folder: str) -> tuple[int, int]:
    """Bytes and number of the rows."""
    numbers, sizes = array("q"), array("q")
    for partition, row in rows:
        with _room_in(folder):
            file.write(row)
        numbers.append(partition)
        sizes.append(len(row))
    of_rows, places = np.array(numbers, np.int64), np.empty((len(sizes), 2), np.int64)
    places[:, 1] = sizes
    places[:, 0] = np.cumsum(places[:, 1]) - places[:, 1]
    order = np.argsort(of_rows, kind="stable")
    firsts = np.searchsorted(of_rows[order], np.arange(partitions + 1))
    with _room_in(folder):
        file.write(places[order].tobytes() + firsts.astype(np.int64).tobytes())
    return int(places[:, 1].sum()), len(sizes)


def _places(content: IO[bytes], file: SpillFile, partition: int) -> Longs:
    """(offset, size) of every row of a partition."""
    behind = file.size + file.rows * _PLACE
    first, last = np.frombuffer(_read(content, behind + partition * _LONG, 2 * _LONG), np.int64).tolist()
    return np.frombuffer(_read(content, file.size + first * _PLACE, (last - first) * _PLACE), np.int64).reshape(-1, 2)


def _read(content: IO[bytes], offset: int, size: int) -> bytes:
    content.seek(offset)
    data = content.read(size)
    if len(data) < size:
        raise OSError(0, f"it has {offset + len(data)} bytes and no more")
    return data


@contextmanager
def _room_in(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise no_room_for_rows(error, folder) from None

"""Shuffle through local files, for a local master, where all tasks run on this machine.

In Spark's own shuffle, every row passes through a socket to the JVM, is compressed, written and read there, and passes
through a socket back, which took half of the total CPU time. Here senders leave their rows in files (`spill_file`), and
writers read them from the same disk. Spark still schedules the tasks and repeats failed ones.

The files are deleted when the shuffle is no longer referenced. They lie in the tasks' scratch directory, which Spark
deletes when it ends, with files of killed workers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeVar

from pyspark import SparkContext

from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.tasks.protocol import MakeSender, Weighed
from rescale.execution.tasks.spark.carried_work import CarriedWork
from rescale.execution.tasks.spark.dispatch import failures_as_ours, reported, slices_of
from rescale.execution.tasks.spark.spill_file import SpillFile, rows_in, spill
from rescale.execution.tasks.spark.task_meter import counted_into, new_sum
from rescale.storage.files import owned
from rescale.storage.scratch import scratch_directory

U = TypeVar("U")
R = TypeVar("R")


class FileShuffle:
    """Rows in files that every task on this machine can read."""

    def __init__(
        self,
        spark: SparkContext,
        make_sender: MakeSender[U],
        units: Weighed[U],
        partitions: int,
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._files: list[SpillFile] | None = None
        slices = [[unit for _, unit in weighed_units] for weighed_units in slices_of(units, spark.defaultParallelism)]
        carried = CarriedWork.of(make_sender)

        def send_all() -> list[SpillFile]:
            done, sent = spark.accumulator(0), new_sum(spark)

            def send(parts: Iterable[list[U]]) -> Iterator[SpillFile]:
                with counted_into(sent):
                    yield spill(carried.unpacked()(done.add)(parts), partitions, scratch_directory())

            with reported(progress, lambda: done.value):
                files = spark.parallelize(slices, len(slices)).mapPartitions(send).collect()
            METER.add(sent.value)
            return files

        self._send_all = send_all

    @failures_as_ours()
    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        """Run all senders; return the result of `work` on the rows of one partition, computed in this process."""
        return work(_rows(self._sent(), partition))

    @failures_as_ours()
    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        """Yield the result of `work(partition, rows)` for each partition with a size in bytes, in no order."""
        files = self._sent()
        done, written = self._spark.accumulator(0), new_sum(self._spark)
        carried = CarriedWork.of((work, files))

        def write(partitions: Iterable[int]) -> Iterator[R]:
            todo, sent = carried.unpacked()
            for partition in partitions:
                with counted_into(written):
                    yield from todo(partition, _rows(sent, partition))
                done.add(sizes[partition])

        due = sorted(sizes)
        with reported(progress, lambda: done.value):
            results = self._spark.parallelize(due, max(1, len(due))).mapPartitions(write).collect()
        METER.add(written.value)
        return results

    def _sent(self) -> list[SpillFile]:
        if self._files is None:
            self._files = self._send_all()
            weakref.finalize(self, _remove, self._files)
        return self._files


def _rows(files: Iterable[SpillFile], partition: int) -> Iterator[bytes]:
    return chain.from_iterable(rows_in(file, partition) for file in files)


def _remove(files: Iterable[SpillFile]) -> None:
    for file in files:
        with suppress(OSError):
            owned.unlink(Path(file.path))

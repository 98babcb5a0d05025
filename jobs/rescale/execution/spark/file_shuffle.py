"""A shuffle through files, where all of Spark's tasks run on this machine (a local master).

Through Spark's own every row passes a socket to the JVM, is compressed, written and read there, and passes a socket
back. Where who sends and who writes see the same disk, the first leave their rows in files (`spill_file`), and the
others read them there: half of the CPU time of the whole went into that detour. Spark deals the work, as ever, and
tries again what fails.

The files go when nobody has the shuffle any more, as those of Spark's own do. They lie where tasks have their scratch
directory, which Spark removes when it ends: so what a worker left that was killed goes then.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TypeVar

from pyspark import SparkContext

from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.spark.carried_work import CarriedWork
from rescale.execution.spark.dispatch import failures_as_ours, reported, slices_of
from rescale.execution.spark.spill_file import SpillFile, rows_in, spill
from rescale.execution.spark.task_meter import counted_into, new_sum
from rescale.execution.tasks import MakeSender, Weighed
from rescale.storage.scratch import scratch_directory

U = TypeVar("U")
R = TypeVar("R")


class FileShuffle:
    """Rows on their way through files, which every task of this machine can read."""

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
        slices = [[unit for _, unit in some] for some in slices_of(units, spark.defaultParallelism)]
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
        """Has everything read; returns what `work` makes of the rows of one partition, here."""
        return work(_rows(self._sent(), partition))

    @failures_as_ours()
    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        """What `work(partition, rows)` gives for each partition that has a size in bytes, in no order."""
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
            os.unlink(file.path)  # noqa: PTH108

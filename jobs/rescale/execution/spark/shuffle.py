"""Spark's shuffle between those who read and those who write, on a cluster (`file_shuffle`: on one machine).

Rows go to the partition that they name. The readers run once, when the first partition is asked for; the partition of
the receipts is, so that all sizes and errors are known before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from pyspark import SparkContext

from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.spark.carried_work import CarriedWork
from rescale.execution.spark.dispatch import failures_as_ours, reported, slices_of
from rescale.execution.spark.exchange import send_to_partitions
from rescale.execution.spark.task_meter import counted_into, new_sum
from rescale.execution.tasks import MakeSender, Weighed

U = TypeVar("U")
R = TypeVar("R")


class SparkShuffle:
    """Rows on their way through a shuffle of Spark's."""

    def __init__(
        self,
        spark: SparkContext,
        make_sender: MakeSender[U],
        units: Weighed[U],
        partitions: int,
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._progress = progress
        self._done = done = spark.accumulator(0)
        slices = [[unit for _, unit in some] for some in slices_of(units, spark.defaultParallelism)]
        carried, sent = CarriedWork.of(make_sender), new_sum(spark)

        def send(parts: Iterable[list[U]]) -> Iterator[tuple[int, bytes]]:
            with counted_into(sent):
                yield from carried.unpacked()(done.add)(parts)

        self._sent = sent
        self._rows = send_to_partitions(spark.parallelize(slices, len(slices)).mapPartitions(send), partitions)

    @failures_as_ours()
    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        """Has everything read; returns what `work` makes of the rows of one partition."""
        with reported(self._progress, lambda: self._done.value):
            (result,) = self._spark.runJob(self._rows, lambda rows: [work(rows)], [partition])
        METER.add(self._sent.value)
        return result

    @failures_as_ours()
    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        """What `work(partition, rows)` gives for each partition that has a size in bytes, in no order."""
        done, written = self._spark.accumulator(0), new_sum(self._spark)
        carried = CarriedWork.of(work)

        def write(partition: int, rows: Iterable[bytes]) -> Iterator[R]:
            with counted_into(written):
                yield from carried.unpacked()(partition, rows)
            done.add(sizes[partition])

        with reported(progress, lambda: done.value):
            results = list(self._spark.runJob(self._rows.mapPartitionsWithIndex(write), list, sorted(sizes)))
        METER.add(written.value)
        return results

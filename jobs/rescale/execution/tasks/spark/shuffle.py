"""Shuffles rows with Spark's own shuffle (workers of one machine use `file_shuffle`).

Rows go to the partition that they name. The senders run once, when the first partition is requested. A rekeying first
requests the partition with all sizes and errors (`rekeying.totals`), so they are known before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pyspark import RDD, SparkContext
from pyspark.serializers import NoOpSerializer, pack_long

from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.tasks.protocol import MakeSender, Weighed
from rescale.execution.tasks.shared_function import SharedFunction
from rescale.execution.tasks.slices import slices_of
from rescale.execution.tasks.spark.dispatch import raise_spark_errors, report_progress
from rescale.execution.tasks.spark.task_meter import count_into, new_counters_accumulator

U = TypeVar("U")
R = TypeVar("R")


class SparkShuffle:
    """Rows in Spark's shuffle."""

    def __init__(
        self,
        spark: SparkContext,
        make_sender: MakeSender[U],
        units: Weighed[U],
        partition_count: int,
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._progress = progress
        self._bytes_done = bytes_done = spark.accumulator(0)
        slices = [[unit for _, unit in weighed_units] for weighed_units in slices_of(units, spark.defaultParallelism)]
        shared_sender, counters = SharedFunction.pack(make_sender), new_counters_accumulator(spark)

        def send(slices_of_task: Iterable[list[U]]) -> Iterator[tuple[int, bytes]]:
            with count_into(counters):
                yield from shared_sender.unpack()(bytes_done.add)(slices_of_task)

        self._send_counters = counters
        self._rows = _send_to_partitions(spark.parallelize(slices, len(slices)).mapPartitions(send), partition_count)

    @raise_spark_errors()
    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        """Run all senders; return the result of `work` on the rows of one partition."""
        with report_progress(self._progress, lambda: self._bytes_done.value):
            (result,) = self._spark.runJob(self._rows, lambda rows: [work(rows)], [partition])
        METER.add_worker(self._send_counters.value)
        return result

    @raise_spark_errors()
    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        """Return the results of `work(partition, rows)` for all partitions in `sizes` (bytes), in any order."""
        bytes_done, counters = self._spark.accumulator(0), new_counters_accumulator(self._spark)
        shared_work = SharedFunction.pack(work)

        def write(partition: int, rows: Iterable[bytes]) -> Iterator[R]:
            with count_into(counters):
                yield from shared_work.unpack()(partition, rows)
            bytes_done.add(sizes[partition])

        with report_progress(progress, lambda: bytes_done.value):
            results = list(self._spark.runJob(self._rows.mapPartitionsWithIndex(write), list, sorted(sizes)))
        METER.add_worker(counters.value)
        return results


def _send_to_partitions(rows: RDD[tuple[int, bytes]], partition_count: int) -> RDD[bytes]:
    """Send each (n, row) to partition n.

    `RDD.partitionBy` does the same, but takes more time and memory: it pickles pairs, and collects up to a thousand of
    them in lists. This function uses the classes of PySpark that `partitionBy` is made of. These are not part of the
    public interface, so tests cover the supported versions of Spark.
    """
    keyed_rows: Any = rows.mapPartitions(_keys_and_rows, preservesPartitioning=True)
    keyed_rows._bypass_serializer = True
    jvm: Any = rows.context._jvm
    pairs = jvm.PairwiseRDD(keyed_rows._jrdd.rdd()).asJavaPairRDD()
    partitioned_pairs = pairs.partitionBy(jvm.PythonPartitioner(partition_count, 0))
    return RDD(jvm.PythonRDD.valueOfPair(partitioned_pairs), rows.context, NoOpSerializer())


def _keys_and_rows(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    for partition, row in rows:
        yield pack_long(partition)  # type: ignore[no-untyped-call]
        yield row

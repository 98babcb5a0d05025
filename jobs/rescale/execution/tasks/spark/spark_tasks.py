"""Tasks in Spark: units run in slices, final errors are returned as rows, and rows go through Spark's shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pyspark import Accumulator, SparkContext

from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.tasks.protocol import MakeSender, Shuffle, Weighed
from rescale.execution.tasks.shared_function import SharedFunction
from rescale.execution.tasks.slices import Outcome, results_of, slices_of, work_through
from rescale.execution.tasks.spark.dispatch import raise_spark_errors, report_progress
from rescale.execution.tasks.spark.session import spark_context
from rescale.execution.tasks.spark.shuffle import SparkShuffle
from rescale.execution.tasks.spark.task_meter import count_into, new_counters_accumulator

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def spark_tasks(name: str, master: str | None, work_bytes: int | None = None) -> Iterator[SparkTasks]:
    """Run Spark inside the block, with executors for `work_bytes` (`spark_context`), and provide its tasks."""
    with spark_context(name, master, work_bytes) as context:
        yield SparkTasks(context)


@dataclass(frozen=True)
class SparkTasks:
    """Tasks of a running Spark."""

    context: SparkContext

    @property
    @raise_spark_errors()
    def cores(self) -> int:
        return self.context.defaultParallelism

    @raise_spark_errors()
    def run(self, work: Callable[[U], R], units: Weighed[U], progress: Progress, **_: bool) -> list[R]:
        if not units:
            return []
        slices = slices_of(units, self.cores)
        bytes_done: Accumulator[int] = self.context.accumulator(0)
        counters = new_counters_accumulator(self.context)
        shared_work = SharedFunction.pack(work)

        def run_slice(slices_of_task: Iterable[list[tuple[int, U]]]) -> Iterator[Outcome[R]]:
            with count_into(counters):
                for unit_slice in slices_of_task:
                    yield from work_through(shared_work.unpack(), unit_slice, bytes_done.add)

        with report_progress(progress, lambda: bytes_done.value):
            outcomes = self.context.parallelize(slices, len(slices)).mapPartitions(run_slice).collect()
        METER.add_worker(counters.value)
        return results_of(outcomes)

    @raise_spark_errors()
    def shuffle(
        self, make_sender: MakeSender[U], units: Weighed[U], partition_count: int, progress: Progress
    ) -> Shuffle:
        return SparkShuffle(self.context, make_sender, units, partition_count, progress)

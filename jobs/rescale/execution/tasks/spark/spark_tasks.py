"""Spark's form of tasks: units run in slices, final errors are returned as rows, rows go through files or a shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pyspark import Accumulator, SparkContext

from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.tasks.protocol import MakeSender, Shuffled, Weighed
from rescale.execution.tasks.spark.carried_work import CarriedWork
from rescale.execution.tasks.spark.dispatch import attempt, failures_as_ours, reported, slices_of
from rescale.execution.tasks.spark.file_shuffle import FileShuffle
from rescale.execution.tasks.spark.session import spark_context
from rescale.execution.tasks.spark.shuffle import SparkShuffle
from rescale.execution.tasks.spark.task_meter import counted_into, new_sum
from rescale.text.errors import RescaleError

_UNITS_AT_ONCE = 4
"""Units of a slice that run at once: small ones mostly wait for the store. Each holds at most a part in memory."""

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def spark_tasks(name: str, master: str | None, work: int | None = None) -> Iterator[SparkTasks]:
    """Run Spark inside the block, with executors for `work` bytes (`spark_context`), and provide its tasks."""
    with spark_context(name, master, work) as context:
        yield SparkTasks(context, on_one_disk=bool(context._jsc.isLocal()))


@dataclass(frozen=True)
class SparkTasks:
    """Tasks of a running Spark; `on_one_disk` says whether all of them see the same local files."""

    context: SparkContext
    on_one_disk: bool

    @property
    @failures_as_ours()
    def cores(self) -> int:
        return self.context.defaultParallelism

    @failures_as_ours()
    def run(
        self,
        work: Callable[[U], R],
        units: Weighed[U],
        progress: Progress,
        *,
        threads_will_do: bool = False,  # noqa: ARG002
    ) -> list[R]:
        if not units:
            return []
        slices = slices_of(units, self.cores)
        done: Accumulator[int] = self.context.accumulator(0)
        counted = new_sum(self.context)
        carried = CarriedWork.of(work)

        def run_slice(parts: Iterable[list[tuple[int, U]]]) -> Iterator[tuple[R | None, RescaleError | None]]:
            attempted = partial(attempt, carried.unpacked())
            pool = ThreadPoolExecutor(_UNITS_AT_ONCE)
            try:
                with counted_into(counted):
                    for part in parts:
                        outcomes = pool.map(attempted, [unit for _, unit in part])
                        for (weight, _), outcome in zip(part, outcomes, strict=True):
                            yield outcome
                            if outcome[1] is not None:
                                return
                            done.add(weight)
            finally:
                pool.shutdown(cancel_futures=True)

        with reported(progress, lambda: done.value):
            rows = self.context.parallelize(slices, len(slices)).mapPartitions(run_slice).collect()
        METER.add(counted.value)
        errors = [error for _, error in rows if error is not None]
        if errors:
            raise min(errors, key=str)
        return [result for result, _ in rows if result is not None]

    @failures_as_ours()
    def shuffle(self, make_sender: MakeSender[U], units: Weighed[U], partitions: int, progress: Progress) -> Shuffled:
        kind = FileShuffle if self.on_one_disk else SparkShuffle
        return kind(self.context, make_sender, units, partitions, progress)

"""Counters of Spark's tasks, added up on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext

from rescale.execution.meter import METER, StepCounters


class _CounterSum(AccumulatorParam[StepCounters]):
    def zero(self, value: StepCounters) -> StepCounters:  # noqa: ARG002
        return StepCounters()

    def addInPlace(self, value1: StepCounters, value2: StepCounters) -> StepCounters:  # noqa: N802
        return value1.plus(value2)


def new_counters_accumulator(context: SparkContext) -> Accumulator[StepCounters]:
    """Return an accumulator to which `count_into` adds the counts of tasks."""
    return context.accumulator(StepCounters(), _CounterSum())


@contextmanager
def count_into(total: Accumulator[StepCounters]) -> Iterator[None]:
    """Add the counts of the block, which is the work of a task, to `total`. Adds nothing if the block fails."""
    counters_before, task = METER.read(), TaskContext.get()
    yield
    counters = METER.process_since(counters_before)
    total.add(counters.plus(StepCounters(lost_task_count=task.attemptNumber() if task is not None else 0)))

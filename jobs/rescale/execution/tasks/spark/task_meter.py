"""Counters of Spark's tasks, added up on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext

from rescale.execution.meter import METER, Counted


class _Sum(AccumulatorParam[Counted]):
    def zero(self, value: Counted) -> Counted:  # noqa: ARG002
        return Counted()

    def addInPlace(self, value1: Counted, value2: Counted) -> Counted:  # noqa: N802
        return value1.plus(value2)


def new_sum(context: SparkContext) -> Accumulator[Counted]:
    """Return an accumulator for the counts of tasks (`counted_into`)."""
    return context.accumulator(Counted(), _Sum())


@contextmanager
def counted_into(total: Accumulator[Counted]) -> Iterator[None]:
    """Add the counts of a task's work in the block to `total`, if it succeeds."""
    before, task = METER.read(), TaskContext.get()
    yield
    done = METER.own_since(before)
    total.add(done.plus(Counted(lost_tasks=task.attemptNumber() if task is not None else 0)))

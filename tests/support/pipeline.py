"""The pipeline in one process with one shared Spark session: what many cases go through, fast."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

from pyspark import SparkContext

from rescale.execution.spark.session import spark_context
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.planning.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request import Format, make_request
from rescale.target.claim import claim
from rescale.target.publication import Published, publish
from support.needs import need


@cache
def shared_spark() -> SparkContext:
    """One session for the whole test run."""
    need("java", "Spark runs on a JVM (17 or newer)")
    session = spark_context("rescale tests", "local[2]")
    spark = session.__enter__()
    atexit.register(session.__exit__, None, None, None)
    return spark


@dataclass(frozen=True)
class OneProcess:
    """Stands for Spark where the work is done in this process: all that is asked of it is how many cores it has."""

    defaultParallelism: int = 2  # noqa: N815


@contextmanager
def without_spark(order: Random | None = None) -> Iterator[None]:
    """In the block the work of Spark's tasks is done here, one unit after the other: for tests of what the work is.

    With an `order` tasks take their turns by chance, and what they send each other arrives so.
    """

    def in_order(items: Iterable[Any]) -> list[Any]:
        listed = list(items)
        if order is not None:
            order.shuffle(listed)
        return listed

    def run_units(_: object, work: Callable[[Any], Any], units: Sequence[tuple[int, Any]], __: object) -> list[Any]:
        return [work(unit) for _, unit in in_order(units)]

    class LoopShuffle:
        """The twin of `Shuffle`: a task for every unit, and lists for partitions."""

        def __init__(
            self, _: object, units: Sequence[Any], make_spread: Callable[[Any], Any], partitions: int, __: object
        ) -> None:
            self._units = units
            self._spread = make_spread(lambda _: None)
            self._rows: list[list[bytes]] = [[] for _ in range(partitions)]

        def read(self, partition: int, work: Callable[[Iterable[bytes]], Any]) -> Any:
            for unit in in_order(self._units):
                for number, row in self._spread([[unit]]):
                    self._rows[number].append(row)
            return work(in_order(self._rows[partition]))

        def write(
            self, sizes: dict[int, int], work: Callable[[int, Iterable[bytes]], Iterator[Any]], _: object
        ) -> list[Any]:
            return [one for number in in_order(list(sizes)) for one in work(number, in_order(self._rows[number]))]

    with (
        patch("rescale.execution.moving.run_units", run_units),
        patch("rescale.execution.validation.validation.run_units", run_units),
        patch("rescale.execution.rekeying.streams.run_units", run_units),
        patch("rescale.execution.rekeying.unshuffled.run_units", run_units),
        patch("rescale.execution.rekeying.streams.Shuffle", LoopShuffle),
    ):
        yield


def plan_rescale(
    source: str,
    target: str,
    parallelism: Sequence[str] = (),
    allow_prefixes: Sequence[str] = (),
    max_parallelism: Sequence[str] = (),
    key_hash: Sequence[str] = (),
    format: str = "keep",  # noqa: A002
) -> Plan:
    request = make_request(source, target, parallelism, allow_prefixes, (), max_parallelism, key_hash, Format(format))
    return prepare(request).plan


def execute(plan: Plan) -> Published:
    """Everything after the plan."""
    move(plan)
    validate_coverage(plan, shared_spark())
    return publish(plan)


def execute_without_spark(plan: Plan, *, cores: int = 2, order: Random | None = None) -> Published:
    with without_spark(order):
        claim(plan)
        for step in (reshuffle_keyed_state, redistribute_operator_state, validate_coverage):
            step(plan, OneProcess(cores))
        return publish(plan)


def move(plan: Plan, spark: SparkContext | OneProcess | None = None) -> None:
    """Claim and both moving steps: what `validate` finds. They share the session, unless another one is given."""
    claim(plan)
    for step in (reshuffle_keyed_state, redistribute_operator_state):
        step(plan, spark or shared_spark())


def rescale_snapshot(
    source: str,
    target: str,
    *,
    parallelism: Sequence[str] = (),
    allow_prefixes: Sequence[str] = (),
    max_parallelism: Sequence[str] = (),
    key_hash: Sequence[str] = (),
) -> None:
    """From a source to a published target."""
    execute(plan_rescale(source, target, parallelism, allow_prefixes, max_parallelism, key_hash))

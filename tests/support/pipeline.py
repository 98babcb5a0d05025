"""The pipeline in one process with one shared Spark session: what many cases go through, fast."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from pyspark import SparkContext

from rescale.claim import claim, store_plan
from rescale.execution.session import spark_context
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.planning.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request import make_request
from rescale.publish import Published, publish
from support.needs import need


@cache
def shared_spark() -> SparkContext:
    """One session for the whole test run."""
    need("java", "Spark runs on a JVM (17 or newer)")
    session = spark_context("rescale tests", "local[2]")
    spark = session.__enter__()
    atexit.register(session.__exit__, None, None, None)
    return spark


@contextmanager
def without_spark() -> Iterator[None]:
    """In the block the work of Spark's tasks is done here, one unit after the other: for tests of what the work is."""

    def run_units(_: object, work: Callable[[Any], Any], units: Sequence[tuple[int, Any]], __: object) -> list[Any]:
        return [work(unit) for _, unit in units]

    with (
        patch("rescale.execution.moving.run_units", run_units),
        patch("rescale.execution.validation.run_units", run_units),
    ):
        yield


def plan_rescale(
    source: str,
    target: str,
    parallelism: Sequence[str] = (),
    allow_prefixes: Sequence[str] = (),
    max_parallelism: Sequence[str] = (),
    key_hash: Sequence[str] = (),
) -> Plan:
    return prepare(make_request(source, target, parallelism, allow_prefixes, (), max_parallelism, key_hash)).plan


def execute(plan: Plan) -> Published:
    """Everything after the plan."""
    move(plan)
    validate_coverage(plan, shared_spark())
    return publish(plan)


def execute_without_spark(plan: Plan) -> Published:
    with without_spark():
        store_plan(plan)
        claim(plan)
        reshuffle_keyed_state(plan, None)
        redistribute_operator_state(plan, None)
        validate_coverage(plan, None)
        return publish(plan)


def move(plan: Plan) -> None:
    """Claim and both moving steps: what `validate` finds."""
    store_plan(plan)
    claim(plan)
    reshuffle_keyed_state(plan, shared_spark())
    redistribute_operator_state(plan, shared_spark())


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

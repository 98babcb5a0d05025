"""The pipeline in this process, with workers or a Spark session that all tests share, to save time."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.processes import ProcessTasks, process_tasks
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.tasks.spark.spark_tasks import SparkTasks, spark_tasks
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.planning.continuing import continued_plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Files, Format
from rescale.planning.request.surgery_request import parse_surgery
from rescale.runstate.certificate import Certificate
from rescale.runstate.claim import claim
from rescale.runstate.pinned_snapshots import open_base
from rescale.runstate.publication import Published, publish
from support.needs import need


@cache
def shared_processes() -> ProcessTasks:
    """Return tasks in two workers."""
    session = process_tasks(2)
    tasks = session.__enter__()
    atexit.register(session.__exit__, None, None, None)
    return tasks


@cache
def shared_spark() -> SparkTasks:
    """Return tasks in a Spark session with two cores."""
    need("java", "Spark runs on a JVM")
    session = spark_tasks("rescale tests", "local[2]")
    tasks = session.__enter__()
    atexit.register(session.__exit__, None, None, None)
    return tasks


def plan_rescale(
    source: str,
    target: str,
    parallelism: Sequence[str] = (),
    allow_prefixes: Sequence[str] = (),
    max_parallelism: Sequence[str] = (),
    key_hash: Sequence[str] = (),
    *,
    format: str = "keep",  # noqa: A002
    files: str = "copy",
    **surgery: Any,
) -> Plan:
    """Return the plan of a request whose values are text, as on the command line (`parse_surgery`)."""
    request = make_request(
        source,
        target,
        parallelism,
        max_parallelism=max_parallelism,
        key_hash=key_hash,
        format=Format(format),
        files=Files(files),
        allow_prefixes=allow_prefixes,
        surgery=parse_surgery(**surgery),
    )
    return prepare(request).plan


def claimed_plan(*arguments: Any, **wanted: Any) -> Plan:
    """Return a plan, made as by `plan_rescale`, that has claimed its target."""
    plan = plan_rescale(*arguments, **wanted)
    claim(plan)
    return plan


def execute(plan: Plan, tasks: Tasks | None = None) -> Published:
    """Carry out everything after the plan, by default in shared workers."""
    certify(plan, tasks=tasks or shared_processes())
    return publish(plan)


def execute_without_spark(plan: Plan, *, cores: int = 2, order: Random | None = None) -> Published:
    certify(plan, tasks=InProcessTasks(cores, order))
    return publish(plan)


def certify(plan: Plan, proof: Proof = Proof.RECORDS, tasks: Tasks | None = None) -> Certificate:
    """Carry out everything between the plan and the publication, by default in this process."""
    move(plan, tasks or InProcessTasks())
    return validate_coverage(plan, tasks or InProcessTasks(), proof)


def move(plan: Plan, tasks: Tasks | None = None) -> None:
    """Claim the target and run both moving steps, by default in shared workers."""
    claim(plan)
    for step in (reshuffle_keyed_state, redistribute_operator_state):
        step(plan, tasks or shared_processes())


def rescale_snapshot(
    source: str,
    target: str,
    *,
    parallelism: Sequence[str] = (),
    allow_prefixes: Sequence[str] = (),
    max_parallelism: Sequence[str] = (),
    key_hash: Sequence[str] = (),
    tasks: Tasks | None = None,
) -> None:
    """Rescale a source, and publish the target."""
    execute(plan_rescale(source, target, parallelism, allow_prefixes, max_parallelism, key_hash), tasks)


def plan_continued(
    source: str, target: str, base: str, parallelism: Sequence[str] = (), max_parallelism: Sequence[str] = ()
) -> Plan:
    """Return the plan of `rescale run --base`."""
    full = prepare(make_request(source, target, parallelism, max_parallelism=max_parallelism))
    return continued_plan(full.plan, full.snapshot, open_base(base, ()))

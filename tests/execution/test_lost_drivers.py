"""The driver of a step or its JVM is killed, as the system kills the largest process when memory runs out.

The process of the step ends with a `StoreError` or without any result, and the processes that it started end, too. A
repetition of the step completes the work. A task of Airflow starts one such process for its step, and the command line
starts one for all steps.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.process import run_step
from rescale.runstate.places import places_of
from rescale.runstate.publication import is_published, publish
from rescale.runstate.step import Step
from rescale.text.errors import StoreError
from support import snapshots
from support.airflow_server import wait_for
from support.faults import Faults, Kind
from support.needs import need
from support.pipeline import claimed_plan
from support.resuming import assert_right
from support.watching import Watch

pytestmark = pytest.mark.slow

SOURCE = snapshots.directory("2-clicks")

EARLIER_STEPS = {
    Step.RESHUFFLE: (),
    Step.RUN: (),
    Step.VALIDATE: (reshuffle_keyed_state, redistribute_operator_state),
}
"""Steps that have already run when the step begins."""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return claimed_plan(SOURCE, str(tmp_path / "target"), max_parallelism=["1000"])


@pytest.mark.parametrize(
    ("step", "kind", "where"),
    [
        (Step.RESHUFFLE, Kind.KILL_JVM, f"read {SOURCE}/"),
        (Step.RUN, Kind.KILL_JVM, "handles-keyed.json"),
        (Step.RUN, Kind.KILL_JVM, "-operator-"),
        (Step.VALIDATE, Kind.KILL_JVM, "/target/"),
        (Step.VALIDATE, Kind.KILL_DRIVER, "certificate.json"),
    ],
)
def test_step_that_loses_its_driver_or_jvm_is_a_store_error_and_can_be_repeated(
    step: Step, kind: Kind, where: str, plan: Plan, tmp_path: Path
) -> None:
    for run_earlier_step in EARLIER_STEPS[step]:
        run_earlier_step(plan, InProcessTasks())
    fault, hook = Faults(str(tmp_path / "log"), kind, 1, where), tmp_path / "hook"
    hook.mkdir()
    if kind is Kind.KILL_JVM:
        need("java", "Spark runs on a JVM")
    master = "local-cluster[2,1,1024]" if kind is Kind.KILL_JVM else "local[2]"
    arguments = ["--plan", places_of(plan).plan, "--master", master]
    with Watch() as watch:
        environment = {**os.environ, **fault.environment(hook), **watch.environment}
        with pytest.raises(StoreError) as caught:
            run_step(step, places_of(plan).result(step), arguments, environment=environment)
        assert any(where in line for line in fault.calls()), "the fault did not occur"
        wait_for(lambda: not watch.processes(), "the started processes to end", 300)
    is_driver_killed = kind is Kind.KILL_DRIVER
    assert caught.value.what == (
        f"the process of the step '{step}' ended without a result" if is_driver_killed else "Spark's JVM has ended"
    )
    assert not is_published(plan)
    for run_next_step in (reshuffle_keyed_state, redistribute_operator_state, validate_coverage):
        run_next_step(plan, InProcessTasks())
    publish(plan)
    assert_right(plan.target, SOURCE)

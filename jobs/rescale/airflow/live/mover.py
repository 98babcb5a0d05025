"""Moves state for the task that follows a job: each full run has its own process or pod, and all rounds share one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.connections.spark import platform_spark
from rescale.airflow.steps.step_task import environment_of_steps
from rescale.airflow.task_log import StepLog
from rescale.lasting_process import LastingProcess
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.process import ResultDocument, run_step
from rescale.runstate.places import orders_place, places_of
from rescale.runstate.step import Step
from rescale.storage.locations import join
from rescale.storage.scratch import ScratchKind, remove_all_abandoned, scratch_folder, temporary_directory
from rescale.storage.store import open_store


class RoundsRunner(Protocol):
    """A process on this machine, or a pod, that makes one round after another."""

    def begin(self) -> None:
        """Start the process early, so that the first round does not wait for it. A pod may start later."""

    def move(self, plan: Plan, proof: Proof) -> None:
        """Move and validate the state of a claimed plan."""

    def end(self) -> None:
        """End the process or pod, even in the middle of a round; the next round starts another one."""


@dataclass(frozen=True)
class Mover:
    """Moves and validates the state of claimed plans: `move_all` moves all state, `rounds_runner` only changes."""

    move_all: Callable[[Plan, Proof], None]
    rounds_runner: RoundsRunner

    def move(self, plan: Plan, proof: Proof) -> None:
        """Move and validate the state of a claimed plan.

        Changes are moved in the process or pod for rounds, all state in a process or pod of its own.
        """
        (self.rounds_runner.move if proof is Proof.CHANGES else self.move_all)(plan, proof)


@contextmanager
def open_mover(target: str, ti: Any) -> Iterator[Mover]:
    """Yield a mover for the task instance that follows a job; its process or pod for rounds ends with the block."""
    log_line = StepLog().log_line

    def move_all(plan: Plan, proof: Proof) -> None:
        run_in_pod_or_process(Step.RUN, target, ["--plan", places_of(plan).plan, "--proof", proof.value], ti)

    if (template := os.environ.get(DRIVER_POD_VARIABLE)) is None:
        spark = platform_spark()
        remove_all_abandoned()
        with LastingProcess(spark.master, log_line, environment=environment_of_steps(spark)) as process:
            yield Mover(move_all, process)
        return
    from rescale.airflow.live.driver_pod import RoundsPod  # imports the Kubernetes client
    from rescale.airflow.steps.leftover_pods import delete_leftover_pods, labels_of_run

    delete_leftover_pods(template, ti.dag_id, ti.run_id)  # a killed try of the task may have left pods
    with RoundsPod(template, labels_of_run(ti.dag_id, ti.run_id), target, log_line) as pod:
        yield Mover(move_all, pod)


def run_in_pod_or_process(step: Step, target: str, arguments: Sequence[str], ti: Any) -> ResultDocument:
    """Run a step, in a pod if steps run in pods, else in a process of this machine; return its result document.

    A pod writes its result document beside `target`; the document is deleted afterwards.
    """
    log_line = StepLog().log_line
    if (template := os.environ.get(DRIVER_POD_VARIABLE)) is None:
        spark = platform_spark()
        environment = environment_of_steps(spark)
        with scratch_folder(Path(temporary_directory()), ScratchKind.RESULT) as directory:
            result_uri = str(directory / "step" / "result.json")
            return run_step(step, result_uri, [*arguments, "--master", spark.master], log_line, environment=environment)
    from rescale.airflow.live.driver_pod import DriverPod  # imports the Kubernetes client
    from rescale.airflow.steps.leftover_pods import labels_of_run

    result_uri = join(orders_place(target), f"{uuid4().hex}.json")
    labels = labels_of_run(ti.dag_id, ti.run_id)
    try:
        with DriverPod(template, labels, [step.value, *arguments, "--result", result_uri], log_line) as pod:
            return pod.wait_for_result(result_uri)
    finally:
        open_store(result_uri).delete([result_uri])

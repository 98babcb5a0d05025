"""The tasks that move or read state: each has a step run and waits for its end, so that no Spark lives in a worker.

Where the step runs is decided here and nowhere else: in a pod where `RESCALE_DRIVER_POD` names the template of one, as
a process of the worker where it does not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from rescale.orchestration.connections.access import DRIVER_POD
from rescale.orchestration.steps.earlier_tasks import Summary, the_plan_to_carry_out
from rescale.orchestration.steps.rescale_task import Answer, Words, rescale_task
from rescale.orchestration.steps.trace_context import trace_context
from rescale.orchestration.telling import StepLog
from rescale.process import Step, run_step
from rescale.target.documents import load_plan
from rescale.target.places import places_of

log = logging.getLogger(__name__)


def step_task(
    step: Step,
    task_id: str,
    display_name: str,
    doc: str,
    answer: Answer = lambda _, document: document,
    words: Words = lambda _: [],
    **arguments: Any,
) -> Any:
    """Given the summary of a plan, a task that has the step run, with more `words` that follow from the form."""
    if DRIVER_POD not in os.environ:
        return rescale_task(_in_a_process(step, answer, words), task_id, display_name, doc_md=doc, **arguments)
    from rescale.orchestration.steps.pods import StepPod  # it brings a client of Kubernetes

    template = os.environ[DRIVER_POD]
    return lambda planned: StepPod(
        task_id=task_id,
        task_display_name=display_name,
        doc_md=doc,
        step=step,
        planned=planned,
        template=template,
        answer=answer,
        words=words,
        **arguments,
    )


def end_steps_of(dag_id: str, run_id: str) -> None:
    """Of a run whose tasks have all ended: deletes the pods that these have left. A process ends with its worker."""
    if template := os.environ.get(DRIVER_POD):
        from rescale.orchestration.steps.left_pods import delete_left_pods

        delete_left_pods(template, dag_id, run_id)


def _in_a_process(step: Step, answer: Answer, words: Words) -> Callable[..., Summary]:
    def run(planned: Summary | None, params: Any = None, ti: Any = None) -> Summary:
        planned = the_plan_to_carry_out(planned, params, ti)
        if planned["published"]:
            log.info("nothing to do: the result was published by an earlier run")
            return {}
        plan = load_plan(planned["plan"])
        arguments = ["--plan", planned["plan"], "--master", "local[*]", *words(params)]
        log.info("the step begins, in a process of its own")
        document = run_step(step, places_of(plan).result(step), arguments, StepLog().say, environment=_environment())
        log.info("the step has ended")
        return answer(plan, document)

    return run


def _environment() -> dict[str, str]:
    """This process's, without what it says to Airflow alone: connections, and the keys that Airflow itself has.

    Beside Spark's JVM and workers, functions that hash keys may be anybody's.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return {**own, **trace_context()}

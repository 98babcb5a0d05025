"""Tasks that move or read state. Such a task runs a step outside the worker's process, and waits for the step's end.

The step runs in a pod if the environment variable `RESCALE_DRIVER_POD` names a template, otherwise in a process of the
worker.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.connections.spark import Spark, platform_spark
from rescale.airflow.settings import settings
from rescale.airflow.steps.earlier_tasks import PLAN_TASK, Summary, required_output, sibling_task_id
from rescale.airflow.steps.required_approval import plan_to_execute
from rescale.airflow.steps.rescale_task import ArgumentsOf, SummaryOf, rescale_task
from rescale.airflow.steps.trace_context import trace_context
from rescale.airflow.task_log import StepLog
from rescale.runstate.step import Step
from rescale.text.errors import RequestError

log = logging.getLogger(__name__)


def step_task(
    step: Step,
    task_id: str,
    display_name: str,
    doc: str,
    summary_of: SummaryOf,
    arguments_of: ArgumentsOf = lambda _: [],
    **arguments: Any,
) -> Any:
    """Return a factory of tasks that run a step of the plan.

    The tasks fail if the plan must not be carried out (`plan_to_execute`). The factory takes the summary of the task
    that planned, the id of a task in the same group, and values of form fields (None for the values that the run was
    started with).

    `summary_of` makes the task's summary from the step's result document. `arguments_of` returns arguments that depend
    on the form.
    """
    if DRIVER_POD_VARIABLE not in os.environ:
        run = step_in_process(step, summary_of, arguments_of)
        task = rescale_task(run, task_id, display_name, doc_md=doc, **arguments)

        def make_process_task(plan_output: Any, sibling_id: str, values: Mapping[str, Any] | None = None) -> Any:
            form_arguments = {} if values is None else {"params": values}
            return task.override(task_id=sibling_task_id(sibling_id, task_id))(plan_output, **form_arguments)

        return make_process_task
    _refuse_spark_setting()
    from rescale.airflow.steps.pods import StepPod  # imports the Kubernetes client

    template = os.environ[DRIVER_POD_VARIABLE]

    def make_pod_task(plan_output: Any, sibling_id: str, values: Mapping[str, Any] | None = None) -> Any:
        return StepPod(
            task_id=sibling_task_id(sibling_id, task_id),
            task_display_name=display_name,
            doc_md=doc,
            step=step,
            plan_output=plan_output,
            values=values,
            template=template,
            summary_of=summary_of,
            arguments_of=arguments_of,
            **arguments,
        )

    return make_pod_task


def _refuse_spark_setting() -> None:
    """Raise `RequestError` if the settings name a Spark master: steps run in pods, and do not use it."""
    if settings().spark is not None:
        raise RequestError(
            f"the settings of the platform name a Spark master, but steps run in pods, whose template names it "
            f"({DRIVER_POD_VARIABLE})",
            expected="a Spark master in the template only",
            found="the field 'spark' in the settings",
            advice="remove the field",
        )


def delete_pods_of_run(dag_id: str, run_id: str, task_ids: Sequence[str] = ()) -> None:
    """Delete the pods that tasks of a run left behind: the tasks in `task_ids`, or all tasks if that is empty.

    Processes need no clean-up: they end with their worker.
    """
    if template := os.environ.get(DRIVER_POD_VARIABLE):
        from rescale.airflow.steps.leftover_pods import delete_leftover_pods

        delete_leftover_pods(template, dag_id, run_id, task_ids)


def step_in_process(step: Step, summary_of: SummaryOf, arguments_of: ArgumentsOf) -> Callable[..., Summary]:
    """Return the function of a task that runs a step in a process of its own. The arguments are as in `step_task`."""

    def run(plan_output: Summary | None, params: Any = None) -> Summary:
        from rescale.process import run_step
        from rescale.runstate.places import places_of

        plan_output = required_output(PLAN_TASK, plan_output)
        plan = plan_to_execute(plan_output, params)
        if plan_output["published"]:
            log.info("nothing to do: an earlier run has published the result")
            return {}
        spark = platform_spark()
        arguments = ["--plan", plan_output["plan"], "--master", spark.master, *arguments_of(params)]
        log.info("starting the step in a process of its own, with the Spark master %s", spark.master)
        result_uri, environment = places_of(plan).result(step), environment_of_steps(spark)
        document = run_step(step, result_uri, arguments, StepLog().log_line, environment=environment)
        log.info("the step is done")
        return summary_of(plan, document)

    return run


def environment_of_steps(spark: Spark) -> dict[str, str]:
    """Return the environment variables of a step with this Spark: those of this process without `AIRFLOW…`.

    The variables `AIRFLOW…` may hold connections and keys, and the step may run users' own functions that hash keys.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return {**environment, **trace_context(), **spark.environment}

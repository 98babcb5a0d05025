"""A step as a pod: the pod is the Spark driver, runs the same main as a process would, and starts the executors.

A template, which comes with the installation of Airflow, defines the pod: its image, rights, limits and access to
storage. The task adds the step and the plan, and holds no worker while it waits. The exit code tells whether another
try may help, and the result document in storage describes the error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import V1EnvVar, V1Pod

from rescale.airflow.connections.access import form_access
from rescale.airflow.forms.filled_form import trimmed_values
from rescale.airflow.steps.required_approval import plan_to_execute
from rescale.airflow.steps.rescale_task import ArgumentsOf, SummaryOf
from rescale.airflow.steps.retries import RETRIES, task_errors
from rescale.airflow.steps.trace_context import trace_context
from rescale.airflow.task_log import StepLog
from rescale.process import read_result
from rescale.runstate.documents import load_plan
from rescale.runstate.places import places_of
from rescale.runstate.step import Step
from rescale.storage.store import exists
from rescale.text.errors import RescaleError, StoreError

CONTAINER = "driver"
"""Name of the driver's container in the pod template."""

CLUSTER_ACCESS: dict[str, Any] = (
    {"in_cluster": True, "kubernetes_conn_id": None} if "KUBERNETES_SERVICE_HOST" in os.environ else {}
)
"""Arguments that select the cluster: the cluster in which Airflow itself runs, or the one that the connection
`kubernetes_default` names."""
_SECONDS_TO_START = 900
"""Timeout for the start of a pod; the cluster may have to add a node first."""
_SECONDS_BETWEEN_LOGS = 5
_SECONDS_BETWEEN_CHECKS = 10
"""Time between two checks whether a pod has started. It is long enough for the scheduler to see the worker exit before
the triggerer sees the pod end. Otherwise, Airflow would consider the task lost, and try again even after a final error.
"""


class StepPod(KubernetesPodOperator):
    """Operator that runs `step` of a plan in a pod.

    `plan_output` is the summary of the task that planned, and `template` the path of the pod template. The page of the
    task shows `links`. `values` are values of form fields; None stands for the values that the run was started with.
    `summary_of` and `arguments_of` are those of `step_task`.
    """

    template_fields = (*KubernetesPodOperator.template_fields, "plan_output", "values")

    def __init__(
        self,
        *,
        step: Step,
        plan_output: Any,
        values: Mapping[str, Any] | None = None,
        template: str,
        summary_of: SummaryOf,
        arguments_of: ArgumentsOf = lambda _: [],
        links: Sequence[BaseOperatorLink] = (),
        **arguments: Any,
    ) -> None:
        super().__init__(
            name=f"rescale-{step.value}",
            pod_template_file=template,
            base_container_name=CONTAINER,
            **CLUSTER_ACCESS,
            deferrable=True,
            logging_interval=_SECONDS_BETWEEN_LOGS,
            startup_timeout_seconds=_SECONDS_TO_START,
            startup_check_interval_seconds=_SECONDS_BETWEEN_CHECKS,
            **RETRIES,
            **arguments,
        )
        self.step = step
        self.plan_output = plan_output
        self.values = values
        self.summary_of = summary_of
        self.arguments_of = arguments_of
        self.operator_extra_links = tuple(links)

    def execute(self, context: Context) -> None:
        """Start the pod, unless an earlier try did, and wait for it without a worker."""
        form_values = self._form_values(context)
        with _access(form_values):
            plan = plan_to_execute(self.plan_output, form_values)
        if self.plan_output["published"]:
            self.log.info("nothing to do: an earlier run has published the result")
            return
        result_uri = places_of(plan).result(self.step)
        self.arguments = ["python3", "-m", self.step.value, "--plan", self.plan_output["plan"], "--result", result_uri]
        self.arguments += self.arguments_of(form_values)
        trace_variables = [V1EnvVar(name=name, value=value) for name, value in trace_context().items()]
        self.env_vars = [*self.env_vars, *trace_variables]
        super().execute(context)

    def _form_values(self, context: Context) -> dict[str, Any]:
        return trimmed_values(context["params"] if self.values is None else self.values)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> None:
        """Resume when there are log lines to read, or the pod has ended. A failure becomes one of our errors."""
        with _access(self._form_values(context)):
            plan = load_plan(self.plan_output["plan"])
            result_uri = places_of(plan).result(self.step)
            try:
                super().trigger_reentry(context, event)
            except AirflowException as failure:
                raise error_of(self.step, exit_code(self.pod), result_uri, str(failure)) from None
            context["ti"].xcom_push("return_value", self.summary_of(plan, read_result(result_uri)))

    def _write_logs(  # type: ignore[override]  # the caller logs errors and continues, so there are no retries here
        self, pod: V1Pod, follow: bool = False, since_time: datetime | str | None = None
    ) -> None:
        """Log the driver's lines from `since_time` on, each at its own level; the provider would log them at INFO.

        Kubernetes is given a number of seconds instead of the time: it refuses times in the future, and our clock may
        be ahead of the node's.
        """
        if isinstance(since_time, str):
            since_time = datetime.fromisoformat(since_time)
        since_seconds = (
            None if since_time is None else max(1, math.ceil((datetime.now(UTC) - since_time).total_seconds()))
        )
        lines = self.client.read_namespaced_pod_log(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            container=CONTAINER,
            follow=follow,
            since_seconds=since_seconds,
            _preload_content=False,
        )
        step_log = StepLog()
        for line in lines:
            step_log.log_line(line.decode("utf-8", errors="backslashreplace").rstrip("\n"))


@contextmanager
def _access(form_values: Mapping[str, Any]) -> Iterator[None]:
    with task_errors(), form_access(form_values):
        yield


def error_of(step: Step, code: int | None, result_uri: str, failure: str) -> RescaleError:
    """Return the error in a failed pod's result document if it has the pod's exit code, else a `StoreError`."""
    if code and exists(result_uri):
        try:
            read_result(result_uri)
        except RescaleError as error:
            if error.exit_code == code:
                return error
    return StoreError(
        f"the pod of the step {step.value!r} ended without a result",
        found=failure.partition("\n")[0] if code is None else f"exit code {code}",
        advice="look at its output above (was it out of memory, or was a node lost?); another try resumes the step",
    )


def exit_code(pod: V1Pod | None) -> int | None:
    """Return the exit code of the driver, or None if it is unknown."""
    for status in (pod.status.container_statuses or ()) if pod and pod.status else ():
        if status.name == CONTAINER and status.state and status.state.terminated:
            return int(status.state.terminated.exit_code)
    return None

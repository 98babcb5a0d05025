"""A step as a pod: the pod is the driver of Spark, runs the main that a process would run, and starts the executors.

What the pod is, its image, rights, limits and access to storage, stands in a template that whoever installs Airflow
provides. A task only says which step of which plan, and holds no worker while it waits. The exit code tells whether
another try is of use, and the result document in storage tells what was wrong.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import V1EnvVar, V1Pod

from rescale.errors import RescaleError, StoreError
from rescale.orchestration.connections.access import storage_access
from rescale.orchestration.filled_form import stripped
from rescale.orchestration.steps.attempts import ATTEMPTS, ended_by_our_errors
from rescale.orchestration.steps.earlier_tasks import the_plan_to_carry_out
from rescale.orchestration.steps.rescale_task import Answer, Words
from rescale.orchestration.steps.trace_context import trace_context
from rescale.orchestration.telling import StepLog
from rescale.process import Step, read_result
from rescale.storage.store import open_store
from rescale.target.documents import load_plan
from rescale.target.places import places_of

CONTAINER = "driver"
"""The name of the template's container."""

WHERE: dict[str, Any] = (
    {"in_cluster": True, "kubernetes_conn_id": None} if "KUBERNETES_SERVICE_HOST" in os.environ else {}
)
"""An Airflow that runs in a pod starts others beside it; the connection `kubernetes_default` of another says where."""
_SECONDS_TO_START = 900
"""A cluster may have to add a node first."""
_SECONDS_BETWEEN_LOGS = 5
_SECONDS_BETWEEN_LOOKS = 10
"""At a pod that is to start. Were it seen to have ended before the scheduler has seen the worker leave, Airflow would
take the task for lost, and try again what another try cannot mend."""


class StepPod(KubernetesPodOperator):
    """Runs `step` of the plan that an earlier task's summary names.

    `template` is the path of the pod's; `answer` is what the task gives for the plan and the step's result document;
    `words` are what the form adds to the step's arguments; `links` are on the page of the task.
    """

    template_fields = (*KubernetesPodOperator.template_fields, "planned")

    def __init__(
        self,
        *,
        step: Step,
        planned: Any,
        template: str,
        answer: Answer,
        words: Words = lambda _: [],
        links: Sequence[BaseOperatorLink] = (),
        **arguments: Any,
    ) -> None:
        super().__init__(
            name=f"rescale-{step.value}",
            pod_template_file=template,
            base_container_name=CONTAINER,
            **WHERE,
            deferrable=True,
            logging_interval=_SECONDS_BETWEEN_LOGS,
            startup_timeout_seconds=_SECONDS_TO_START,
            startup_check_interval_seconds=_SECONDS_BETWEEN_LOOKS,
            **ATTEMPTS,
            **arguments,
        )
        self.step = step
        self.planned = planned
        self.answer = answer
        self.words = words
        self.operator_extra_links = tuple(links)

    def execute(self, context: Context) -> None:
        """Starts the pod, or finds the one that an earlier try started, and waits without a worker."""
        with ended_by_our_errors():
            the_plan_to_carry_out(self.planned, context["params"], context["ti"])
        if self.planned["published"]:
            self.log.info("nothing to do: the result was published by an earlier run")
            return
        with _access(context):
            plan = load_plan(self.planned["plan"])
        result = places_of(plan).result(self.step)
        self.arguments = ["python3", "-m", self.step.value, "--plan", self.planned["plan"], "--result", result]
        self.arguments += self.words(context["params"])
        traced = [V1EnvVar(name=name, value=value) for name, value in trace_context().items()]
        self.env_vars = [*self.env_vars, *traced]
        super().execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> None:
        """Goes on when the pod has ended; a failure is one of our errors."""
        with _access(context):
            plan = load_plan(self.planned["plan"])
            result = places_of(plan).result(self.step)
            try:
                super().trigger_reentry(context, event)
            except AirflowException as failure:
                raise error_of(self.step, exit_code(self.pod), result, str(failure)) from None
            context["ti"].xcom_push("return_value", self.answer(plan, read_result(result)))

    def _write_logs(  # type: ignore[override]  # the caller says what went wrong, and goes on: nothing is tried again
        self, pod: V1Pod, follow: bool = False, since_time: datetime | str | None = None
    ) -> None:
        """Says the lines of the driver since then at the level of each; the provider's own says all at INFO.

        The node's clock may be ahead of ours: Kubernetes takes no time that is still to come.
        What the triggerer fetches while the pod runs has the level that a line begins with.
        """
        if isinstance(since_time, str):
            since_time = datetime.fromisoformat(since_time)
        seconds = None if since_time is None else max(1, math.ceil((datetime.now(UTC) - since_time).total_seconds()))
        lines = self.client.read_namespaced_pod_log(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            container=CONTAINER,
            follow=follow,
            since_seconds=seconds,
            _preload_content=False,
        )
        step = StepLog()
        for line in lines:
            step.say(line.decode("utf-8", errors="backslashreplace").rstrip("\n"))


@contextmanager
def _access(context: Context) -> Iterator[None]:
    with ended_by_our_errors(), storage_access(stripped(context["params"])["connection"]):
        yield


def error_of(step: Step, code: int | None, result: str, failure: str) -> RescaleError:
    """What the pod ended with: its own words, if it left any and its exit code is that of these."""
    if code and open_store(result).stat(result) is not None:
        try:
            read_result(result)
        except RescaleError as error:
            if error.exit_code == code:
                return error
    return StoreError(
        f"the pod of the step {step.value!r} ended without a result",
        found=failure.partition("\n")[0] if code is None else f"exit code {code}",
        advice="look at its output above (out of memory? a lost node?); another try resumes",
    )


def exit_code(pod: V1Pod | None) -> int | None:
    """With which the driver ended; None if it cannot be known."""
    for status in (pod.status.container_statuses or ()) if pod and pod.status else ():
        if status.name == CONTAINER and status.state and status.state.terminated:
            return int(status.state.terminated.exit_code)
    return None

"""Driver pods for work on a running job, if steps run in pods: one for a single step, or one for all rounds.

A pod is made from the same template as the pods of other steps. The worker orders rounds through the store (`mailbox`),
so it needs no connection to the pod. The task deletes its pod. If the task is killed before that, a pod for rounds
ends by itself after some minutes, because it misses the task's signs of life.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from http import HTTPStatus
from typing import Any, Self
from uuid import uuid4

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from kubernetes.client import V1EnvVar, V1Pod
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from rescale.airflow.steps.leftover_pods import call_kubernetes, delete_pod
from rescale.airflow.steps.pods import CLUSTER_ACCESS, CONTAINER, exit_code
from rescale.airflow.steps.trace_context import trace_context
from rescale.mailbox import Sender
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.process import ResultDocument, read_result
from rescale.runstate.step import Step
from rescale.storage.store import exists
from rescale.text.errors import StoreError

_POLL_SECONDS = 0.2
_SECONDS_BETWEEN_LOOKS = 5.0
"""Time between two looks at the pod while it works."""

_SECONDS_TO_START = 900
_ENDED_PHASES = ("Failed", "Succeeded")


class DriverPod:
    """A pod whose driver runs a Python module; the pod is deleted when the `with` block ends.

    `arguments` are the name of the module, and the arguments of its command line. `template` is the path of the pod
    template, to whose labels `labels` are added. `log_line` is called with each line of the driver's log.
    """

    def __init__(
        self, template: str, labels: Mapping[str, str], arguments: Sequence[str], log_line: Callable[[str], None]
    ) -> None:
        self._client = KubernetesHook(**CLUSTER_ACCESS).core_v1_client
        self._log_line = log_line
        self._pod = self._pod_of_template(template, labels, arguments)
        self._start_time = time.monotonic()

    def __enter__(self) -> Self:
        metadata = self._pod.metadata
        call_kubernetes(self._client.create_namespaced_pod, metadata.namespace, self._pod)
        self._log_line(f"the driver is the pod {metadata.name}")
        threading.Thread(target=self._follow_log, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        delete_pod(self._client, self._pod)

    def wait_for_result(self, uri: str) -> ResultDocument:
        """Wait for the result document `uri`, and return it.

        Raises the error in the document, or `StoreError` if the pod is lost.
        """
        next_look_time = 0.0
        while not exists(uri):
            if time.monotonic() > next_look_time:
                next_look_time = time.monotonic() + _SECONDS_BETWEEN_LOOKS
                self._refuse_lost_pod(uri)
            time.sleep(_POLL_SECONDS)
        return read_result(uri)

    def _pod_of_template(self, template: str, labels: Mapping[str, str], arguments: Sequence[str]) -> V1Pod:
        pod: V1Pod = PodGenerator.deserialize_model_file(template)
        pod.metadata.name = f"rescale-{arguments[0].replace('_', '-')}-{uuid4().hex[:10]}"
        pod.metadata.namespace = pod.metadata.namespace or KubernetesHook(**CLUSTER_ACCESS).get_namespace() or "default"
        pod.metadata.labels = {**(pod.metadata.labels or {}), **labels}
        driver_container = next(container for container in pod.spec.containers if container.name == CONTAINER)
        driver_container.args = ["python3", "-m", *arguments]
        trace_variables = [V1EnvVar(name=name, value=value) for name, value in trace_context().items()]
        driver_container.env = [*(driver_container.env or []), *trace_variables]
        return pod

    def _refuse_lost_pod(self, result_uri: str) -> None:
        """Raise `StoreError` if the pod has ended without the result, is gone, or does not start."""
        pod = self._read_pod()
        phase = "gone" if pod is None else pod.status.phase
        is_late = phase == "Pending" and time.monotonic() > self._start_time + _SECONDS_TO_START
        is_active = pod is not None and phase not in _ENDED_PHASES
        if (is_active and not is_late) or exists(result_uri):
            return
        code = exit_code(pod)
        raise StoreError(
            f"the pod {self._pod.metadata.name} {'did not start' if is_late else 'ended without a result'}",
            found=f"it is {phase}" if code is None else f"exit code {code}",
            advice="look at its output above (was it out of memory, or was a node lost?); another try resumes",
        )

    def _read_pod(self) -> V1Pod | None:
        metadata = self._pod.metadata
        try:
            pod: V1Pod = call_kubernetes(self._client.read_namespaced_pod, metadata.name, metadata.namespace)
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return pod

    def _follow_log(self) -> None:
        """Call `log_line` with the lines of the driver's log, as long as Kubernetes returns lines."""
        with suppress(ApiException, HTTPError):
            while (pod := self._read_pod()) is not None and pod.status.phase == "Pending":
                time.sleep(1)
            lines: Any = self._client.read_namespaced_pod_log(
                name=self._pod.metadata.name,
                namespace=self._pod.metadata.namespace,
                container=CONTAINER,
                follow=True,
                _preload_content=False,
            )
            for line in lines:
                self._log_line(line.decode("utf-8", errors="backslashreplace").rstrip("\n"))


class RoundsPod:
    """A driver pod that makes one round after another; it starts with the first round, and ends with the `with` block.

    Orders are put beside `target`. For the other arguments, see `DriverPod`.
    """

    def __init__(self, template: str, labels: Mapping[str, str], target: str, log_line: Callable[[str], None]) -> None:
        self._template = template
        self._labels = labels
        self._target = target
        self._log_line = log_line
        self._stack = ExitStack()
        self._pod: DriverPod | None = None
        self._sender: Sender | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Start no pod yet: it would occupy resources that the pod that moves all state needs."""

    def move(self, plan: Plan, proof: Proof) -> None:
        """Move and validate the state of a claimed plan.

        Raises the error of the run, or `StoreError` if the pod is lost.
        """
        if self._pod is None or self._sender is None:
            self._sender = self._stack.enter_context(Sender(self._target))
            arguments = [Step.ROUNDS.value, "--orders-at", self._sender.place]
            self._pod = self._stack.enter_context(DriverPod(self._template, self._labels, arguments, self._log_line))
        try:
            self._pod.wait_for_result(self._sender.send(plan, proof))
        except StoreError:
            self.end()
            raise

    def end(self) -> None:
        """Delete the pod, even in the middle of a round; the next round starts another pod."""
        self._pod = self._sender = None
        self._stack.pop_all().close()

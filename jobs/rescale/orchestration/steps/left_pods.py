"""Pods that outlive the tasks of their run: whoever ends the run deletes them.

A task deletes its pod when the pod has ended, and when it is cancelled itself while it waits for it. Between the two,
after the pod's end and before the task's next turn, a cancelled task has nobody who would.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.kubernetes_helper_functions import generic_api_retry
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator, make_safe_label_value
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import V1Pod
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from rescale.orchestration.steps.pods import WHERE

log = logging.getLogger(__name__)

_RELEASE = "app.kubernetes.io/instance"
"""The label that tells the pods of two Airflows apart, where the template has it."""
_SECONDS_TO_ANSWER = 10
_REFUSALS = (ApiException, HTTPError, ConfigException, AirflowException)
"""Of the cluster, and of whoever knows the way to it."""


def delete_left_pods(template: str, dag_id: str, run_id: str) -> None:
    """Deletes the pods that a run has left, and with the driver's its executors.

    `template` is the path of the one that they were made of. That pods are left does not change how a run ended:
    where the cluster cannot be asked, or does not let them be deleted, a warning says so.
    """
    described = PodGenerator.deserialize_model_file(template).metadata
    selector = _selector(dag_id, run_id, (described.labels or {}).get(_RELEASE))
    try:
        hook = KubernetesHook(**WHERE)
        namespace = described.namespace or hook.get_namespace() or "default"
        for pod in _asked(hook.core_v1_client.list_namespaced_pod, namespace, label_selector=selector).items:
            _delete(hook, pod)
            log.warning("deleted the pod %s, which no task of this run had deleted", pod.metadata.name)
    except _REFUSALS as error:
        told = getattr(error, "reason", None) or error
        log.warning("pods of this run may be left, with the labels %s; asked for them, the cluster: %s", selector, told)


def _selector(dag_id: str, run_id: str, release: str | None) -> str:
    """Of labels that `KubernetesPodOperator` puts on its pods, in words that a label may have."""
    labels = {"dag_id": dag_id, "run_id": run_id, "kubernetes_pod_operator": "True"}
    if release is not None:
        labels[_RELEASE] = release
    return ",".join(f"{name}={make_safe_label_value(value)}" for name, value in labels.items())


def _delete(hook: KubernetesHook, pod: V1Pod) -> None:
    try:
        _asked(hook.core_v1_client.delete_namespaced_pod, pod.metadata.name, pod.metadata.namespace)
    except ApiException as error:
        if error.status != HTTPStatus.NOT_FOUND:  # its task may have deleted it meanwhile
            raise


def _asked(request: Callable[..., Any], *arguments: str, **more: str) -> Any:
    """What the cluster answers; what may pass is asked again."""
    retried = generic_api_retry(request)  # type: ignore[no-untyped-call]
    return retried(*arguments, **more, _request_timeout=_SECONDS_TO_ANSWER)

"""Deletes pods that outlive the tasks of their run.

A task deletes its pod when the pod has ended, or when the task is cancelled while it waits for the pod. If the task is
cancelled in between, after the pod has ended and before the task resumes, the pod is left over. The last task of the
run deletes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.kubernetes_helper_functions import generic_api_retry
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator, make_safe_label_value
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import CoreV1Api, V1Pod
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from rescale.airflow.steps.pods import CLUSTER_ACCESS

log = logging.getLogger(__name__)

_RELEASE_LABEL = "app.kubernetes.io/instance"
"""Label that distinguishes the pods of several Airflows, if the template has it."""
_SECONDS_TO_ANSWER = 10
_KUBERNETES_ERRORS = (ApiException, HTTPError, ConfigException, AirflowException)
"""Exceptions of Kubernetes, the connection to it, and the configuration for it."""


def delete_leftover_pods(template: str, dag_id: str, run_id: str, task_ids: Sequence[str] = ()) -> None:
    """Delete the pods that tasks of a run left behind: the tasks in `task_ids`, or all tasks if that is empty.

    The executors of a deleted driver pod end with it. `template` is the path of the template of the pods. A failure is
    only a warning: pods that are left over do not change how the run ended.
    """
    metadata = PodGenerator.deserialize_model_file(template).metadata
    selector = _label_selector(dag_id, run_id, task_ids, (metadata.labels or {}).get(_RELEASE_LABEL))
    try:
        hook = KubernetesHook(**CLUSTER_ACCESS)
        namespace = metadata.namespace or hook.get_namespace() or "default"
        for pod in call_kubernetes(hook.core_v1_client.list_namespaced_pod, namespace, label_selector=selector).items:
            delete_pod(hook.core_v1_client, pod)
            log.warning("deleted the pod %s, which no task of this run had deleted", pod.metadata.name)
    except _KUBERNETES_ERRORS as error:
        reason = getattr(error, "reason", None) or error
        log.warning("pods of this run may be left over, with the labels %s: Kubernetes says %s", selector, reason)


def _label_selector(dag_id: str, run_id: str, task_ids: Sequence[str], release: str | None) -> str:
    """Return a selector by the labels that `KubernetesPodOperator` puts on its pods, with valid label values."""
    labels = labels_of_run(dag_id, run_id)
    if release is not None:
        labels[_RELEASE_LABEL] = make_safe_label_value(release)
    label_terms = [f"{name}={value}" for name, value in labels.items()]
    task_terms = [f"task_id in ({','.join(map(make_safe_label_value, task_ids))})"] if task_ids else []
    return ",".join([*label_terms, *task_terms])


def labels_of_run(dag_id: str, run_id: str) -> dict[str, str]:
    """Return the labels by which the pods of a run are found."""
    labels = {"dag_id": dag_id, "run_id": run_id, "kubernetes_pod_operator": "True"}
    return {name: make_safe_label_value(value) for name, value in labels.items()}


def delete_pod(client: CoreV1Api, pod: V1Pod) -> None:
    """Delete a pod, unless somebody else has deleted it."""
    try:
        call_kubernetes(client.delete_namespaced_pod, pod.metadata.name, pod.metadata.namespace)
    except ApiException as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def call_kubernetes(request: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call Kubernetes, and try again after transient errors."""
    request_with_retries = generic_api_retry(request)  # type: ignore[no-untyped-call]
    return request_with_retries(*arguments, **keywords, _request_timeout=_SECONDS_TO_ANSWER)

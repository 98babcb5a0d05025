"""Pods that a run leaves in the cluster are deleted at its end, and no others; a refusal of the cluster is logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.steps.step_task import delete_pods_of_run
from support.http_servers import LocalServer, QuietHandler, serving

RUN = "manual__2026-01-01T00:00:00+00:00"
LABELS = {
    "dag_id": "rescale_savepoint",
    "run_id": "manual__2026-01-01T0000000000-daff4c10d",  # shortened to a valid label
    "kubernetes_pod_operator": "True",
    "app.kubernetes.io/instance": "ours",
}
TEMPLATE = """
metadata: {namespace: state, labels: {app.kubernetes.io/instance: ours}}
"""


class Cluster(LocalServer):
    """Stand-in for a Kubernetes API server, with answers to lists and deletes of pods."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.pods: dict[str, dict[str, str]] = {}
        self.to_list = self.to_delete = 200


class _Handler(QuietHandler):
    server: Cluster

    def answer(self) -> None:
        if self.command == "DELETE":
            self.server.pods.pop(self.path.rpartition("/")[2])
            self.reply(self.server.to_delete, "{}")
            return
        url = urlsplit(self.path)
        assert url.path == "/api/v1/namespaces/state/pods"
        selector, _, tasks = parse_qs(url.query)["labelSelector"][0].partition(",task_id in ")
        labels = dict(label.split("=") for label in selector.split(","))
        selected = [
            name
            for name, pod in self.server.pods.items()
            if labels.items() <= pod.items() and (not tasks or pod.get("task_id") in tasks.strip("()").split(","))
        ]
        pods = [{"metadata": {"name": name, "namespace": "state"}} for name in selected]
        self.reply(self.server.to_list, json.dumps({"items": pods}))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    (tmp_path / "driver.yaml").write_text(TEMPLATE)
    monkeypatch.setenv(DRIVER_POD_VARIABLE, str(tmp_path / "driver.yaml"))
    with serving(Cluster()) as server:
        server.pods = {"left": LABELS, "left-too": {**LABELS, "task_id": "validate"}}
        access = {
            "clusters": [{"name": "c", "cluster": {"server": server.address}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(access)}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        yield server


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith("leftover_pods")]


def test_only_pods_of_the_run_are_deleted(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    others = {
        "of another run": {**LABELS, "run_id": "manual__2"},
        "of another DAG": {**LABELS, "dag_id": "rescale_yearly"},
        "of another release": {**LABELS, "app.kubernetes.io/instance": "theirs"},
        "a worker": {name: value for name, value in LABELS.items() if name != "kubernetes_pod_operator"},
    }
    cluster.pods |= others
    delete_pods_of_run("rescale_savepoint", RUN)
    assert cluster.pods == others
    assert [warning.split(",")[0] for warning in warnings_of(caplog)] == [
        "deleted the pod left",
        "deleted the pod left-too",
    ]


def test_task_group_deletes_only_pods_of_its_own_tasks(cluster: Cluster) -> None:
    """Other pods of the run belong to the DAG that uses the group."""
    cluster.pods = {name: {**LABELS, "task_id": name} for name in ("a.validate", "b.validate", "validate")}
    delete_pods_of_run("rescale_savepoint", RUN, ["a.reshuffle_keyed_state", "a.validate"])
    assert [*cluster.pods] == ["b.validate", "validate"]


def test_run_without_leftover_pods_logs_nothing(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.pods.clear()
    delete_pods_of_run("rescale_savepoint", RUN)
    assert warnings_of(caplog) == []


def test_pod_that_has_just_gone_is_ignored(cluster: Cluster) -> None:
    cluster.to_delete = 404
    delete_pods_of_run("rescale_savepoint", RUN)
    assert cluster.pods == {}


@pytest.mark.parametrize("refused_call", ["to_list", "to_delete"])
def test_refusal_of_the_cluster_is_warned_of_and_does_not_fail_the_task(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, refused_call: str
) -> None:
    setattr(cluster, refused_call, 403)
    caplog.set_level(logging.WARNING)
    delete_pods_of_run("rescale_savepoint", RUN)
    (warning,) = warnings_of(caplog)
    assert warning.startswith("pods of this run may be left over, with the labels dag_id=rescale_savepoint,run_id=")
    assert warning.endswith("Kubernetes says Forbidden")


def test_cluster_is_not_asked_if_steps_are_processes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DRIVER_POD_VARIABLE)
    delete_pods_of_run("rescale_savepoint", RUN)
    assert set(cluster.pods) == {"left", "left-too"}

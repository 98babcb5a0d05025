"""The chart's own Airflow: its tasks start drivers as pods, which start executors; killed, cancelled, uninstalled."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from k8s.savepoints import JOB, download
from oracle.harness import Flink
from rescale.airflow.windows.window import OUTSIDE_HOURS
from rescale.demo.airflow_home import AirflowHome
from rescale.storage.store import open_store
from support.airflow_server import AirflowServer, Run, request
from support.cluster import IMAGES, Namespace, wait_for
from support.helm import CHART
from support.watching import Watch

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

RELEASE = "rescale"
SECRET = "rescale-airflow"
CLAIM = "airflow"
TRACING_WITHOUT_SENDING = [
    {"name": "AIRFLOW__TRACES__OTEL_ON", "value": "True"},
    {"name": "OTEL_TRACES_SAMPLER", "value": "always_off"},
]
"""Environment variables with which Airflow makes traces but sends none."""


@pytest.fixture(scope="module")
def airflow(space: Namespace, savepoint: str) -> Iterator[AirflowServer]:
    password = secrets.token_urlsafe(9)
    keys = {"secret": secrets.token_hex(), "passwords.json": json.dumps({"admin": password})}
    literals = [f"--from-literal={key}={value}" for key, value in keys.items()]
    space.kubectl("create", "secret", "generic", SECRET, *literals)
    settings = ["--set", f"airflow.secret={SECRET}", "--set", f"airflow.database.claim={CLAIM}"]
    settings += ["--set-json", f"windows={json.dumps(windows(savepoint))}"]
    settings += ["--set-json", f"airflow.env={json.dumps(TRACING_WITHOUT_SENDING)}"]
    with space.claim(CLAIM):
        space.install(RELEASE, "--values", str(CHART / "ways/all-in-one.yaml"), *settings)
        with reach_airflow(space, password) as server:
            wait_for(lambda: server.api("GET", "/dags/rescale_savepoint")[0] == 200, "the DAG")
            yield server
        space.uninstall(RELEASE)


def windows(savepoint: str) -> dict[str, dict[str, object]]:
    """Return a window that a test opens by hand, and one with a mistake that the chart cannot see."""
    clock = {"schedule": "0 0 1 1 *", "timezone": "UTC", "closes": f"{datetime.now(UTC) - timedelta(hours=1):%H:%M}"}
    places = {"source": savepoint, "target": f"{savepoint}-{{window}}-{{date}}"}
    return {"yearly": {**clock, **places, "parallelism": 2}, "wrong": {**clock, **places, "timezone": "Mars/Olympus"}}


@contextmanager
def reach_airflow(space: Namespace, password: str) -> Iterator[AirflowServer]:
    """Yield the server in Airflow's pod when it is ready."""
    space.kubectl("rollout", "status", f"deployment/{RELEASE}-airflow", "--timeout=600s")
    with space.forward(f"{RELEASE}-airflow", 8080) as port:
        yield AirflowServer(AirflowHome(Path(), "", port=port, password=password), Watch(), password)


def trigger(airflow: AirflowServer, source: str, target: str, **shape: int) -> Run:
    return airflow.trigger(**request(source, target, connection=None, **shape))


def reshuffling(space: Namespace) -> set[str]:
    """Return the executors that move keyed state."""
    return {name for name in space.running("executor") if "reshuffle" in name}


def leave_pod(space: Namespace, name: str, labels: dict[str, str]) -> None:
    """Leave a completed pod, as a task does that is cancelled before it sees that the pod has ended."""
    finished_container = {"name": "driver", "image": os.environ[IMAGES["spark"]], "command": ["true"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [finished_container]},
    }
    space.kubectl("apply", "--filename", "-", stdin=json.dumps(pod))
    space.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "--timeout=600s")


def await_end(run: Run) -> str:
    return str(wait_for(lambda: run.state if run.state in ("success", "failed") else None, "the end of the run"))


def errors(run: Run, name: str, attempt: int) -> str:
    return "\n".join(line["event"] for line in run.log(name, attempt, or_none=True) if line.get("level") == "error")


def test_run_that_loses_an_executor_and_its_driver_publishes(
    airflow: AirflowServer, space: Namespace, savepoint: str, flink_for_clusters: Flink, tmp_path: Path
) -> None:
    target = f"{savepoint}-by-airflow"
    run = trigger(airflow, savepoint, target, parallelism=3, max_parallelism=1000)
    executor = wait_for(lambda: next(iter(reshuffling(space)), None), "an executor")
    (owner,) = space.pods("executor")[executor]["metadata"]["ownerReferences"]
    (container,) = space.running("driver")[owner["name"]]["spec"]["containers"]
    assert "TRACEPARENT" in {variable["name"] for variable in container["env"]}
    space.kubectl("delete", "pod", executor, "--grace-period=0", "--force")
    wait_for(lambda: reshuffling(space) - {executor}, "another executor")
    space.kubectl("delete", "pod", owner["name"], "--grace-period=0", "--force")
    assert await_end(run) == "success", run.states()
    assert run.task("reshuffle_keyed_state")["try_number"] >= 2
    certificate = json.loads(open_store(target).read_all(f"{target}.rescale/certificate.json", 1 << 30)[0])
    assert certificate["verdict"] == "complete"
    lines = [line["event"] for line in run.log("validate")]
    assert any("validate: " in line and " in " in line for line in lines), lines
    report = urlsplit(str(run.links("publish")["Report"]))
    status, _, page = airflow.page(f"{airflow.home.url}{report.path}?{report.query}")
    assert (status, page) == (200, open_store(target).read_all(f"{target}.rescale/report.html", 1 << 30)[0])
    restored = JOB.with_(parallelism=3, max_parallelism=1000)
    verdict = flink_for_clusters.restore(download(target, tmp_path / "rescaled"), JOB, restored, per_subtask=True)
    assert verdict.ok, verdict
    wait_for(lambda: not space.pods("driver") and not space.pods("executor"), "all pods to be gone")


def test_final_error_fails_at_once_with_the_error_of_the_pod(
    airflow: AirflowServer, space: Namespace, savepoint: str
) -> None:
    source = f"{savepoint}-that-changes"
    for entry in open_store(savepoint).list(savepoint):
        open_store(source).put(
            entry.uri.replace(savepoint, source), open_store(savepoint).read_all(entry.uri, 1 << 30)[0]
        )
    run = trigger(airflow, source, f"{source}-never", parallelism=2)
    wait_for(lambda: run.task("plan")["state"] == "success", "the plan")
    for entry in open_store(source).list(source):
        if not entry.uri.endswith("_metadata"):
            open_store(source).put(entry.uri, b"something else")
    assert await_end(run) == "failed"
    for name in ("reshuffle_keyed_state", "redistribute_operator_state"):
        tries = [errors(run, name, attempt + 1) for attempt in range(run.task(name)["try_number"])]
        # only trouble with the cluster may cost a retry
        assert ["changed" in attempt for attempt in tries] == [False] * (len(tries) - 1) + [True], tries
    wait_for(lambda: not space.pods("executor"), "executors to be gone")


def test_cancelled_run_leaves_no_pod(airflow: AirflowServer, space: Namespace, savepoint: str) -> None:
    target = f"{savepoint}-cancelled"
    run = trigger(airflow, savepoint, target, parallelism=2)
    wait_for(lambda: space.running("executor"), "an executor")
    (driver,) = list(space.running("driver").values())[:1]
    leave_pod(space, "left-by-its-task", driver["metadata"]["labels"])
    run.cancel()
    wait_for(lambda: not space.pods("driver") and not space.pods("executor"), "all pods to be gone")
    assert open_store(target).stat(f"{target}/_metadata") is None


def test_connection_that_would_not_reach_the_pods_is_refused(airflow: AirflowServer, savepoint: str) -> None:
    run = airflow.trigger(**request(savepoint, f"{savepoint}-never", connection="mine", parallelism=2))
    assert await_end(run) == "failed"
    assert run.task("inspect")["try_number"] == 1
    errors = [line["event"] for line in run.log("inspect") if line.get("level") == "error"]
    assert any("steps run in pods, which cannot use the connection 'mine'" in line for line in errors), errors


def test_window_publishes_and_runs_are_kept_though_the_pod_of_airflow_is_replaced(
    airflow: AirflowServer, space: Namespace, savepoint: str
) -> None:
    wait_for(lambda: airflow.api("GET", "/dags/rescale_yearly")[0] == 200, "the window's DAG")

    def import_error() -> Any:
        errors = airflow.api("GET", "/importErrors")[1]["import_errors"]
        return next((error for error in errors if error["filename"] == "rescale_windows_refused.py"), None)

    error = wait_for(import_error, "the import error")
    assert "Mars/Olympus" in error["stack_trace"]
    assert airflow.api("GET", "/dags/rescale_wrong")[0] == 404
    before = airflow.api("GET", "/dags/rescale_savepoint/dagRuns")[1]["total_entries"]
    run = airflow.trigger_dag("rescale_yearly", {OUTSIDE_HOURS: True})
    wait_for(lambda: reshuffling(space), "an executor")
    (pod,) = space.running("airflow")
    space.kubectl("delete", "pod", pod)
    with reach_airflow(space, airflow.home.password) as new_airflow:
        run = replace(run, airflow=new_airflow)
        assert await_end(run) == "success"
        target = run.xcom("open_window")["target"]
        assert new_airflow.api("GET", "/dags/rescale_savepoint/dagRuns")[1]["total_entries"] == before
    assert target.startswith(f"{savepoint}-yearly-")
    assert open_store(target).stat(f"{target}/_metadata") is not None


def test_uninstall_leaves_nothing(airflow: AirflowServer, space: Namespace) -> None:  # noqa: ARG001
    space.uninstall(RELEASE)
    kinds = "pods,deployments,services,serviceaccounts,roles,rolebindings,configmaps,jobs"
    wait_for(lambda: not space.get(kinds, "--selector", "app.kubernetes.io/name=rescale"), "everything to be gone")

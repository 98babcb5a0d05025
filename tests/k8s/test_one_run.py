"""The chart runs one rescale as a Job: driver and executors are pods, any of which may be lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8s.savepoints import JOB, download
from oracle.harness import Flink
from rescale.storage.store import open_store
from support.cluster import S3_AUTHORITY, S3_TLS, Namespace, wait_for
from support.helm import CHART, KUBERNETES_VERSION, PLATFORM, helm

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

KINDS = "serviceaccounts,roles,rolebindings,configmaps,jobs"
OURS = ("--selector", "app.kubernetes.io/name=rescale")


def jobs(space: Namespace, release: str) -> set[str]:
    """Return the names of a release's Jobs."""
    return {job["metadata"]["name"] for job in space.get("jobs", "--selector", f"app.kubernetes.io/instance={release}")}


def end_conditions(space: Namespace, release: str = "") -> dict[str, str] | None:
    """Return the conditions of the only Job (of a release) with their reasons, or None while it runs."""
    (job,) = space.get("jobs", *(["--selector", f"app.kubernetes.io/instance={release}"] if release else []))
    conditions = {
        condition["type"]: condition.get("reason", "")
        for condition in job["status"].get("conditions", ())
        if condition["status"] == "True"
    }
    return conditions if conditions.keys() & {"Complete", "Failed"} else None


def run_options(run: dict[str, Any]) -> list[str]:
    """Return Helm's options for the values below `run`."""
    return [word for name, value in run.items() for word in ("--set", f"run.{name}={value}")]


def is_protected(space: Namespace, pod: str) -> bool:
    """Return whether a pod disruption budget keeps the cluster from evicting the pod."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": space.name}}
    path = f"/api/v1/namespaces/{space.name}/pods/{pod}/eviction?dryRun=All"
    command = ["kubectl", "create", "--raw", path, "--filename", "-"]
    process = subprocess.run(command, input=json.dumps(eviction), capture_output=True, text=True, check=False)
    return "disruption budget" in process.stderr


def servlet_answer(space: Namespace, pod: str, path: str) -> str:
    """Return the answer of a driver's servlet through the API server, or "" while it does not answer."""
    place = f"/api/v1/namespaces/{space.name}/pods/{pod}:4040/proxy{path}"
    return subprocess.run(["kubectl", "get", "--raw", place], capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def failing_release(space: Namespace, savepoint: str) -> str:
    """Return the release of a run whose source is missing."""
    release = "rescale-wrong"
    run = {"source": f"{savepoint}-that-is-not-there", "target": f"{savepoint}-never"}
    space.install(release, *run_options(run))
    return release


def test_run_that_loses_an_executor_and_its_driver_publishes(
    space: Namespace, savepoint: str, flink_for_clusters: Flink, tmp_path: Path
) -> None:
    target = f"{savepoint}-as-a-job"
    run = {"source": savepoint, "target": target, "parallelism": 3, "maxParallelism": 1000}
    options = ("--set", "driver.disruptionBudget=true", "--set", "networkPolicy.enabled=true")
    monitoring = ("--set", "metrics.enabled=true", "--set", f"spark.eventLog={savepoint}-events")
    space.install("rescale-once", *run_options(run), *options, *monitoring)
    executor = wait_for(lambda: next(iter(space.running("executor")), None), "an executor")
    (driver,) = space.running("driver")
    pod = space.pods("executor")[executor]
    assert [owner["name"] for owner in pod["metadata"]["ownerReferences"]] == [driver]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"]["ephemeral-storage"] == "1Gi"
    assert "_SPARK_AUTH_SECRET" in {variable["name"] for variable in container["env"]}
    wait_for(lambda: is_protected(space, driver), "the budget to be counted")
    wait_for(lambda: "metrics_rescale_" in servlet_answer(space, driver, "/metrics/prometheus"), "the driver's metrics")
    wait_for(
        lambda: 'executor_id="' in servlet_answer(space, driver, "/metrics/executors/prometheus"),
        "the executor's metrics",
    )
    space.kubectl("delete", "pod", executor, "--grace-period=0", "--force")
    wait_for(lambda: space.running("executor").keys() - {executor}, "another executor")
    space.kubectl("delete", "pod", driver, "--grace-period=0", "--force")
    wait_for(lambda: space.running("driver").keys() - {driver}, "another driver")
    assert "Complete" in wait_for(lambda: end_conditions(space), "the end of the Job")
    certificate = json.loads(open_store(target).read_all(f"{target}.rescale/certificate.json", 1 << 30)[0])
    assert certificate["verdict"] == "complete"
    restored = JOB.with_(parallelism=3, max_parallelism=1000)
    verdict = flink_for_clusters.restore(download(target, tmp_path / "rescaled"), JOB, restored, per_subtask=True)
    assert verdict.ok, verdict
    assert open_store(target).list(f"{savepoint}-events"), "the second driver has kept Spark's event log"
    space.uninstall("rescale-once")
    wait_for(lambda: not space.pods("driver") and not space.pods("executor"), "pods to be gone")


def test_run_with_a_final_error_is_tried_once(space: Namespace, failing_release: str) -> None:
    assert wait_for(lambda: end_conditions(space, failing_release), "the end of the Job") == {
        "FailureTarget": "PodFailurePolicy",
        "Failed": "PodFailurePolicy",
    }
    (driver,) = space.pods("driver")
    assert "there is no snapshot" in space.kubectl("logs", driver)


def test_run_without_room_or_secret_says_so_and_is_repeated_by_an_upgrade(space: Namespace, savepoint: str) -> None:
    """The pods run with a user id as some clusters assign it; a private authority signed the store's certificate."""
    run = {"source": savepoint, "target": f"{savepoint}-with-room", "parallelism": 2}
    keyless = {"source": savepoint, "target": f"{savepoint}-never"}
    space.install("rescale-keyless", *run_options(keyless), "--set", "s3.secret=nobodys")
    user = "security.pod.runAsUser=1000650000,security.pod.runAsGroup=0,security.pod.fsGroup=1000650000"
    store = f"s3.endpoint={S3_TLS},caBundle.configMap={S3_AUTHORITY}"
    settings = (*run_options(run), "--set", user, "--set", store)
    space.install("rescale-large", *settings, "--set", "executors.cpuRequest=64")
    wait_for(
        lambda: "no executor has started for" in space.log("driver", "rescale-large"),
        "the message that no executor starts",
    )
    assert "its pod requests 64 cores" in space.log("driver", "rescale-large")
    assert "has not accepted any resources" in space.log("driver", "rescale-large"), "as Spark says it"
    (before,) = jobs(space, "rescale-large")
    space.install("rescale-large", *settings)
    wait_for(lambda: jobs(space, "rescale-large") and before not in jobs(space, "rescale-large"), "another Job")
    assert "Complete" in wait_for(lambda: end_conditions(space, "rescale-large"), "the end of the Job")
    assert open_store(run["target"]).stat(f"{run['target']}/_metadata") is not None
    assert "Failed" in wait_for(lambda: end_conditions(space, "rescale-keyless"), "the end of the run without a Secret")
    log = space.log("driver", "rescale-keyless", "secret")
    assert "the Secret nobodys does not exist in this namespace" in log
    for release in ("rescale-large", "rescale-keyless"):
        space.uninstall(release)


def test_api_server_accepts_all_platform_values(space: Namespace) -> None:
    ways = [word for way in ("all-in-one", "one-run") for word in ("--values", str(CHART / f"ways/{way}.yaml"))]
    here = ("--namespace", space.name, "--kube-version", KUBERNETES_VERSION)
    process = helm("template", "clicks", str(CHART), *here, *ways, "--values", str(PLATFORM))
    assert process.returncode == 0, process.stderr
    # A pod needs existing accounts and priority classes; Jobs and Deployments have the same ones in templates.
    manifests = [manifest for manifest in yaml.safe_load_all(process.stdout) if manifest and manifest["kind"] != "Pod"]
    arguments = ("apply", "--dry-run=server", "--validate=strict", "--filename", "-")
    output = space.kubectl(*arguments, stdin=yaml.safe_dump_all(manifests))
    for kind in ("job.batch", "networkpolicy.networking.k8s.io", "poddisruptionbudget.policy", "deployment.apps"):
        assert f"{kind}/clicks-rescale-" in output


def test_helm_test_inspects_a_savepoint_and_rescales_it_with_an_executor(
    space: Namespace, savepoint: str, failing_release: str
) -> None:
    target = f"{savepoint}-helm"
    process = helm(
        "upgrade",
        failing_release,
        str(CHART),
        "--namespace",
        space.name,
        "--reuse-values",
        "--set",
        "run.source=,run.target=",
        "--set",
        f"test.target={target}",
    )
    assert process.returncode == 0, process.stderr
    process = helm("test", failing_release, "--namespace", space.name, "--timeout", "600s")
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.count("Phase:          Succeeded") == 2
    assert open_store(target).stat(f"{target}/{failing_release}-2/_metadata") is not None


def test_uninstall_leaves_nothing(space: Namespace, failing_release: str) -> None:
    assert space.get(KINDS, *OURS)
    space.uninstall(failing_release)
    assert not space.get(KINDS, *OURS)

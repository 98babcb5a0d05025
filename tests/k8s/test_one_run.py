"""The chart runs one rescale as a Job: driver and executors are pods, and any of them may be lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k8s.savepoints import JOB, download
from oracle.harness import Flink
from rescale.storage.store import open_store
from support.cluster import Namespace, wait_for
from support.helm import CHART, helm

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def ended(space: Namespace) -> dict[str, str] | None:
    """The conditions of the Job, when it has ended."""
    (job,) = space.get("jobs")
    conditions = {
        one["type"]: one.get("reason", "") for one in job["status"].get("conditions", ()) if one["status"] == "True"
    }
    return conditions if conditions.keys() & {"Complete", "Failed"} else None


def test_a_run_loses_an_executor_and_its_driver_and_publishes(
    space: Namespace, savepoint: str, flink_for_clusters: Flink, tmp_path: Path
) -> None:
    target = f"{savepoint}-as-a-job"
    run = {"source": savepoint, "target": target, "parallelism": 3, "maxParallelism": 1000}
    space.install("rescale-once", *(word for name, value in run.items() for word in ("--set", f"run.{name}={value}")))
    executor = wait_for(lambda: next(iter(space.running("executor")), None), "an executor")
    (driver,) = space.running("driver")
    owners = space.pods("executor")[executor]["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == [driver]
    space.kubectl("delete", "pod", executor, "--grace-period=0", "--force")
    wait_for(lambda: space.running("executor").keys() - {executor}, "another executor")
    space.kubectl("delete", "pod", driver, "--grace-period=0", "--force")
    wait_for(lambda: space.running("driver").keys() - {driver}, "another driver")
    assert "Complete" in wait_for(lambda: ended(space), "the end of the Job")
    certificate = json.loads(open_store(target).read_all(f"{target}.rescale/certificate.json", 1 << 30)[0])
    assert certificate["verdict"] == "complete"
    restored = JOB.with_(parallelism=3, max_parallelism=1000)
    verdict = flink_for_clusters.restore(download(target, tmp_path / "rescaled"), JOB, restored, per_subtask=True)
    assert verdict.ok, verdict
    space.uninstall("rescale-once")
    wait_for(lambda: not space.pods("driver") and not space.pods("executor"), "pods to be gone")


def test_what_another_try_cannot_mend_is_tried_once(space: Namespace, savepoint: str) -> None:
    run = {"source": f"{savepoint}-that-is-not-there", "target": f"{savepoint}-never"}
    space.install("rescale-wrong", *(word for name, value in run.items() for word in ("--set", f"run.{name}={value}")))
    assert wait_for(lambda: ended(space), "the end of the Job") == {
        "FailureTarget": "PodFailurePolicy",
        "Failed": "PodFailurePolicy",
    }
    (driver,) = space.pods("driver")
    assert "there is no snapshot" in space.kubectl("logs", driver)


def test_helm_test_looks_into_a_savepoint_and_rescales_it_with_an_executor(space: Namespace, savepoint: str) -> None:
    target = f"{savepoint}-helm"
    done = helm(
        "upgrade",
        "rescale-wrong",
        str(CHART),
        "--namespace",
        space.name,
        "--reuse-values",
        "--set",
        "run.source=,run.target=",
        "--set",
        f"test.target={target}",
    )
    assert done.returncode == 0, done.stderr
    done = helm("test", "rescale-wrong", "--namespace", space.name, "--timeout", "300s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Phase:          Succeeded") == 2
    assert open_store(target).stat(f"{target}/rescale-wrong-2/_metadata") is not None


def test_uninstalled_nothing_is_left(space: Namespace) -> None:
    space.uninstall("rescale-wrong")
    assert not space.get(
        "serviceaccounts,roles,rolebindings,configmaps,jobs", "--selector", "app.kubernetes.io/name=rescale"
    )

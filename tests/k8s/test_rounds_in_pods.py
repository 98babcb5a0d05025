"""Rounds of a follower in a pod that stays: if the pod is lost in any round, the next try goes on in another pod."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.live import driver_pod
from rescale.airflow.live.mover import open_mover
from rescale.airflow.steps import leftover_pods
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.following.follower import Follower
from rescale.following.limits import Limits
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.follower.rounds import FollowedJob, Round, RoundKind
from rescale.runstate.publication import publish
from rescale.text.errors import StoreError
from support.checkpoints import checkpoints_in
from support.cluster import Namespace, wait_for
from support.helm import CHART
from support.s3 import S3Server

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

RELEASE = "rounds"
SHAPE: dict[str, Any] = {
    "parallelism": ["3"],
    "max-parallelism": ["1000"],
    "key-hash": [],
    "uids": None,
    "allow-prefix": [],
}


@pytest.fixture
def template(space: Namespace, cluster_s3: S3Server, tmp_path: Path) -> Iterator[str]:  # noqa: ARG001
    """Yield the path of the template of driver pods that the chart gives to Airflow's workers."""
    secret = "rescale-airflow-of-rounds"
    space.kubectl("create", "secret", "generic", secret, "--from-literal=secret=x", "--from-literal=passwords.json={}")
    settings = ["--set", f"airflow.secret={secret}", "--set", "airflow.database.claim=none"]  # Airflow does not start
    space.install(RELEASE, "--values", str(CHART / "ways/all-in-one.yaml"), *settings)
    (config_map,) = [item["data"] for item in space.get("configmaps") if "driver.yaml" in item.get("data", {})]
    file = tmp_path / "driver.yaml"
    file.write_text(config_map["driver.yaml"])
    yield str(file)
    space.uninstall(RELEASE)


def test_rounds_go_on_in_another_pod_after_one_is_lost(
    template: str, space: Namespace, cluster_s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DRIVER_POD_VARIABLE, template)
    access = {"config_file": os.environ["KUBECONFIG"], "kubernetes_conn_id": None}
    for module in (driver_pod, leftover_pods):
        monkeypatch.setattr(module, "CLUSTER_ACCESS", access)
    home = f"s3://{cluster_s3.new_bucket('rounds')}"
    job = checkpoints_in("2-rocksdb-incremental", f"{home}/job", tmp_path / "scratch")
    messages: list[str] = []
    task = SimpleNamespace(dag_id="rescale_job", run_id="rounds in pods")
    lose_pod = threading.Event()

    with open_mover(f"{home}/target", task) as moves:

        def move(plan: Plan, proof: Proof) -> None:
            if lose_pod.is_set():
                lose_pod.clear()
                (pod,) = rounds_pods(space)
                space.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
            moves.move(plan, proof)

        follower = Follower(
            f"{home}/target", FollowedJob(job.directory, SHAPE), {"host": "here"}, move, messages.append
        )
        (base,) = follow(follower, 0)
        assert base.kind is RoundKind.BASE
        assert rounds_pods(space) == set(), "a full run has a pod of its own, which is gone"
        job.copy_newest(4)
        (first,) = follow(follower, 1)
        assert first.kind is RoundKind.ROUND
        (pod,) = rounds_pods(space)
        job.copy_newest(5)
        lose_pod.set()
        with pytest.raises(StoreError):
            follow(follower, 1)
        (second,) = follow(follower, 1)
        assert (second.kind, second.checkpoint) == (RoundKind.ROUND, 5)
        assert rounds_pods(space) != {pod}
        job.copy_newest(6)
        lose_pod.set()
        with pytest.raises(StoreError):
            follower.move_last(follower.plan_last())
        last = follower.plan_last()
        assert last.kind is RoundKind.ROUND
        follower.move_last(last)
        publish(last.prepared.plan)
    wait_for(lambda: not rounds_pods(space), "the pod to be gone")
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def follow(follower: Follower, rounds: int) -> list[Round]:
    new_rounds: list[Round] = []
    follower.follow(Limits(rounds), lambda new, _: new_rounds.append(new))
    return new_rounds


def rounds_pods(space: Namespace) -> set[str]:
    """Return the pods that make rounds and are not being deleted."""
    pods = space.get("pods")
    names = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    return {name for name in names if name.startswith("rescale-move-rounds")}

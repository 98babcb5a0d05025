"""Hand-over to Flink's Kubernetes operator: patches that a real API server accepts, with least rights."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from k8s.flink_operator import FlinkNamespace, flink_namespace
from rescale.airflow.flink.deployment import DeploymentSpec, is_redeployed, read_deployment, redeploy
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.starting import check_hand_over
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import PatchDeployment
from rescale.airflow.job.job_operators import GoBack
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink.start import Start
from rescale.flink_rest.client import StopMode
from rescale.text.errors import RequestError, RescaleError
from support.deferring import run_operator
from support.helm import CHART, helm
from support.needs import need_kubernetes

pytestmark = pytest.mark.slow

MAXIMUM = "pipeline.max-parallelism"
JOB = {"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "last-state", "state": "running", "args": ["a"]}
OPTIONS = {MAXIMUM: "128", "state.savepoints.dir": "s3://bucket/savepoints"}


@pytest.fixture(scope="module")
def space() -> Iterator[FlinkNamespace]:
    need_kubernetes("FlinkDeployments are patched in it")
    with flink_namespace() as created:
        yield created


@pytest.fixture
def access(space: FlinkNamespace, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an Airflow connection that may get and patch FlinkDeployments in the namespace, and nothing else."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": space.kubeconfig(["get", "patch"])}}
    monkeypatch.setenv("AIRFLOW_CONN_LEAST_RIGHTS", json.dumps(connection))
    return "least_rights"


@pytest.fixture
def where(space: FlinkNamespace, access: str) -> PatchDeployment:
    """Return a deployment whose job runs."""
    deployed = space.deploy(JOB, OPTIONS)
    space.reconcile(deployed, "RUNNING", "STABLE")
    return msgspec.structs.replace(deployed, connection=access)


def job_to_restart(where: PatchDeployment) -> JobToRestart:
    deployment = read_deployment(where)
    # Nothing listens at this address: a JobManager that is being replaced does not answer.
    flink = "http://127.0.0.1:9"
    return JobToRestart(flink, "0" * 32, "job", StopMode.STOP, "/save", 2, where, deployment.spec, deployment.nonce)


def go_back_task(before: JobToRestart) -> GoBack:
    taken = {"savepoint": "s3://bucket/source", "job": before.job_id, "state": "FINISHED"}
    return GoBack(task_id="back", old_job_document=msgspec.to_builtins(before), take_output=taken)


def start_operator(space: FlinkNamespace, where: PatchDeployment, *status: str) -> threading.Thread:
    """Act as the operator as soon as the resource has been patched."""

    def act() -> None:
        while space.spec(where)["job"].get("savepointRedeployNonce") == nonce:
            stopped.wait(0.1)
        space.reconcile(where, *status)

    nonce, stopped = space.spec(where)["job"].get("savepointRedeployNonce"), threading.Event()
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def hand_over(where: PatchDeployment, start: Start, before: JobToRestart | None = None) -> Any:
    documents = (
        {"old_job_document": msgspec.to_builtins(before)} if before else {"hand_over": msgspec.to_builtins(where)}
    )
    return run_operator(HandOverJob(task_id="hand_over", start=start._asdict(), **documents), "a-run")


def test_deployment_is_handed_over_and_taken_back(space: FlinkNamespace, where: PatchDeployment) -> None:
    before, spec = job_to_restart(where), space.spec(where)
    check_hand_over(where)
    assert space.spec(where) == spec
    operator = start_operator(space, where, "RUNNING", "STABLE")
    assert hand_over(where, Start("s3://bucket/result", 3, 256)) == {
        "deployment": f"{where.namespace}/{where.name}",
        "nonce": 1,
    }
    operator.join()
    patched = {"initialSavepointPath": "s3://bucket/result", "parallelism": 3, "savepointRedeployNonce": 1}
    assert space.spec(where)["job"] == {**JOB, **patched}
    assert space.spec(where)["flinkConfiguration"] == {**OPTIONS, MAXIMUM: "256"}
    operator = start_operator(space, where, "RUNNING", "STABLE")
    back = go_back_task(before)
    assert run_operator(back, "a-run")["nonce"] == 2
    operator.join()
    patched = {"initialSavepointPath": "s3://bucket/source", "parallelism": 2, "savepointRedeployNonce": 2}
    assert space.spec(where)["job"] == {**JOB, **patched}
    assert space.spec(where)["flinkConfiguration"] == OPTIONS
    assert run_operator(back, "a-run")["nonce"] == 2, "a retry patches nothing"
    with pytest.raises(TaskEnded, match="the job still runs, so a second one would do the same work twice"):
        hand_over(where, Start("s3://bucket/result", 3, 256), before)


def test_added_max_parallelism_is_removed_again_and_a_suspended_job_is_started(
    space: FlinkNamespace, access: str
) -> None:
    deployed = space.deploy({**JOB, "state": "suspended"}, {})
    where = msgspec.structs.replace(deployed, connection=access)
    old = read_deployment(where).spec
    assert old == DeploymentSpec(None, 2, None)
    assert redeploy(where, DeploymentSpec("s3://bucket/result", 3, "256")) == 1
    assert space.spec(where)["flinkConfiguration"] == {MAXIMUM: "256"}
    assert space.spec(where)["job"]["state"] == "running"
    assert redeploy(where, msgspec.structs.replace(old, snapshot="s3://bucket/source")) == 2
    assert space.spec(where)["flinkConfiguration"] == {}


def test_job_is_redeployed_when_the_operator_has_reconciled_it(space: FlinkNamespace, where: PatchDeployment) -> None:
    nonce = redeploy(where, DeploymentSpec("s3://bucket/result", 3, "256"))
    assert not is_redeployed(where, nonce), "the job that runs is the old one"
    space.reconcile(where, "RECONCILING", "STABLE")
    assert not is_redeployed(where, nonce)
    space.reconcile(where, "RUNNING", "STABLE")
    assert is_redeployed(where, nonce)
    space.edit(where, {"job": {"savepointRedeployNonce": 7}})
    with pytest.raises(RescaleError, match="somebody else has redeployed"):
        is_redeployed(where, nonce)


def test_deployment_that_the_operator_gave_up_is_reported_and_patched_again(
    space: FlinkNamespace, where: PatchDeployment
) -> None:
    before = job_to_restart(where)
    operator = start_operator(space, where, "FAILED", "FAILED", "the maximum in the code is 128")
    with pytest.raises(TaskEnded, match=r"(?s)could not start the job.*FAILED: the maximum in the code is 128"):
        hand_over(where, Start("s3://bucket/result", 3, 256))
    operator.join()
    assert redeploy(where, DeploymentSpec("s3://bucket/result", 3, "256")) == 2, "when the task is cleared"
    operator = start_operator(space, where, "RUNNING", "STABLE")
    back = go_back_task(before)
    assert run_operator(back, "a-run")["nonce"] == 3
    operator.join()


def test_deployment_that_cannot_be_patched_is_refused_with_the_reason(
    space: FlinkNamespace, where: PatchDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment_spec = DeploymentSpec("s3://bucket/result", 3, "256")
    with pytest.raises(RequestError, match="a session cluster"):
        redeploy(space.deploy(None, {}), deployment_spec)
    with pytest.raises(RequestError, match="refuses to get") as caught:
        redeploy(msgspec.structs.replace(where, name="nobody"), deployment_spec)
    assert "404" in str(caught.value)
    only_get = {"conn_type": "kubernetes", "extra": {"kube_config": space.kubeconfig(["get"])}}
    monkeypatch.setenv("AIRFLOW_CONN_ONLY_GET", json.dumps(only_get))
    readable = msgspec.structs.replace(where, connection="only_get")
    for patched in (lambda: redeploy(readable, deployment_spec), lambda: check_hand_over(readable)):
        with pytest.raises(RequestError, match="refuses to patch") as caught:
            patched()
        assert "give the service account the right to patch flinkdeployments" in str(caught.value)
    with pytest.raises(RequestError, match="there is no connection 'nobody'"):
        read_deployment(msgspec.structs.replace(where, connection="nobody"))


def test_role_of_the_chart_allows_the_hand_over_only_in_its_namespaces(
    space: FlinkNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.create_account("airflow-worker")
    options = ["existingAirflow.serviceAccounts[0].name=airflow-worker", f"handover.namespaces={{{space.name}}}"]
    values = [word for value in options for word in ("--set", value)]
    process = helm("install", "rescale", str(CHART), "--namespace", space.name, *values)
    assert process.returncode == 0, process.stderr
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": space.kubeconfig_of("airflow-worker")}}
    monkeypatch.setenv("AIRFLOW_CONN_OF_THE_CHART", json.dumps(connection))
    where = msgspec.structs.replace(space.deploy(JOB, OPTIONS), connection="of_the_chart")
    deployment_spec = DeploymentSpec("s3://bucket/result", 3, "256")
    assert redeploy(where, deployment_spec) == 1
    with flink_namespace() as elsewhere:
        other = msgspec.structs.replace(elsewhere.deploy(JOB, OPTIONS), connection="of_the_chart")
        with pytest.raises(RequestError, match="refuses to get"):
            redeploy(other, deployment_spec)
    assert helm("uninstall", "rescale", "--namespace", space.name).returncode == 0

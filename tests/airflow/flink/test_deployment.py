"""Checks and patches of a FlinkDeployment or FlinkSessionJob, against answers of a stand-in for Kubernetes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import msgspec
import pytest
from kubernetes.client import ApiClient, ApiException, Configuration, CustomObjectsApi

from rescale.airflow.flink import deployment, inspection, stopping
from rescale.airflow.flink.deployment import DeploymentSpec, read_deployment, redeploy
from rescale.airflow.flink.questions import JobEndQuestion, RedeploymentQuestion
from rescale.airflow.flink.starting import check_hand_over, start_job
from rescale.airflow.flink.stopping import (
    JobToRestart,
    end_pending_work,
    go_back,
    hand_job_over,
    question_for_started_job,
)
from rescale.airflow.hand_overs import PatchDeployment, RunJar
from rescale.flink.start import Start
from rescale.flink_rest.client import StopMode
from rescale.flink_rest.running_job import JobOverview
from rescale.text.errors import RequestError, StoreError
from support.http_servers import LocalServer, QuietHandler, serving

WHERE = PatchDeployment("flink", "clicks")


@pytest.fixture
def resource() -> dict[str, Any]:
    return {"spec": {"job": {"parallelism": 2}}}


@pytest.fixture
def patch(resource: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return the mock of the request to Kubernetes that patches a FlinkDeployment; its `dry_run` mocks dry runs."""
    patch = Mock(return_value=resource)

    def after(*arguments: Any) -> Any:
        job = {**resource["spec"]["job"], **arguments[-1]["spec"]["job"]}
        return {**resource, "spec": {**resource["spec"], "job": job}}

    patch.dry_run.side_effect = after

    def send(*arguments: Any, dry_run: str | None = None, **_: Any) -> Any:
        return (patch if dry_run is None else patch.dry_run)(*arguments)

    api = SimpleNamespace(get_namespaced_custom_object=lambda *_, **__: resource, patch_namespaced_custom_object=send)
    monkeypatch.setattr(deployment, "open_kubernetes", lambda _: api)
    return patch


def test_missing_right_to_patch_is_refused_before_the_job_is_stopped(patch: Mock) -> None:
    patch.dry_run.side_effect = ApiException(403, "Forbidden")
    with pytest.raises(RequestError, match="Kubernetes refuses to patch") as caught:
        check_hand_over(WHERE)
    assert "give the service account the right to patch flinkdeployments" in str(caught.value)


def test_api_server_that_does_not_answer_is_a_temporary_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for the new job, and so the wait for the cut-over's end, must not hang."""
    ended = Event()

    class Handler(QuietHandler):
        def answer(self) -> None:
            if not ended.wait(5):
                self.reply(200, json.dumps({"spec": {"job": {}}}))

    monkeypatch.setattr(deployment, "_SECONDS_TO_ANSWER", 0.1)
    with serving(LocalServer(Handler)) as server:
        configuration = Configuration(host=server.address)
        configuration.retries = False
        monkeypatch.setattr(deployment, "open_kubernetes", lambda _: CustomObjectsApi(ApiClient(configuration)))
        try:
            with pytest.raises(StoreError, match="Kubernetes cannot be reached"):
                read_deployment(WHERE)
        finally:
            ended.set()


def test_check_of_the_right_to_patch_changes_nothing(patch: Mock) -> None:
    check_hand_over(WHERE)
    patch.dry_run.assert_called_once()
    patch.assert_not_called()


@pytest.mark.parametrize("nonce", [None, 4])
def test_resource_that_would_lose_its_nonce_is_refused(
    nonce: int | None, resource: dict[str, Any], patch: Mock
) -> None:
    """Flink's operator before release 1.8 has no field for the nonce. It would start the job, perhaps without state."""
    resource["spec"]["job"]["savepointRedeployNonce"] = nonce
    patch.dry_run.side_effect = lambda *_: resource
    refused = [lambda: check_hand_over(WHERE)]
    refused += [lambda: redeploy(WHERE, DeploymentSpec("s3://b/savepoint", 4, None))] if nonce is None else []
    for refuse in refused:
        with pytest.raises(RequestError, match="Kubernetes would drop the field"):
            refuse()
    patch.assert_not_called()


@pytest.mark.parametrize(
    "options",
    [
        {"job.autoscaler.enabled": "true"},
        {"job": {"autoscaler": {"enabled": True}}},
        {"job": {"autoscaler.enabled": "True"}},
    ],
)
def test_autoscaler_is_warned_of_before_the_job_is_stopped(
    options: dict[str, Any], resource: dict[str, Any], patch: Mock, caplog: pytest.LogCaptureFixture
) -> None:
    check_hand_over(WHERE)
    assert "Flink's operator scales this job" not in caplog.text
    resource["spec"]["flinkConfiguration"] = options
    check_hand_over(WHERE)
    assert "Flink's operator scales this job (job.autoscaler.enabled)" in caplog.text
    assert patch.dry_run.called


@pytest.mark.parametrize(("before", "after"), [(None, 1), (4, 5)])
def test_autoscaler_is_reset_by_its_nonce(
    before: int | None, after: int, resource: dict[str, Any], patch: Mock
) -> None:
    resource["spec"]["job"]["autoscalerResetNonce"] = before
    deployment.redeploy(WHERE, deployment.DeploymentSpec("s3://b/savepoint", 4, None))
    assert patch.call_args.args[-1]["spec"]["job"]["autoscalerResetNonce"] == after


def test_parallelism_overrides_of_vertices_are_refused(resource: dict[str, Any], patch: Mock) -> None:
    resource["spec"]["flinkConfiguration"] = {"pipeline": {"jobvertex-parallelism-overrides": "ab:2"}}
    with pytest.raises(RequestError, match="sets the parallelism of single vertices") as caught:
        check_hand_over(WHERE)
    assert "pipeline.jobvertex-parallelism-overrides: ab:2" in str(caught.value.found)
    patch.assert_not_called()


def test_session_job_is_patched_like_a_deployment(patch: Mock) -> None:
    session_job = PatchDeployment.parse("flinksessionjob/flink/clicks", None)
    assert (session_job.namespace, session_job.name, session_job.name_in_form) == (
        "flink",
        "clicks",
        "flinksessionjob/flink/clicks",
    )
    check_hand_over(session_job)
    assert patch.dry_run.call_args.args[:-1] == ("flink.apache.org", "v1beta1", "flink", "flinksessionjobs", "clicks")
    deployment.redeploy(session_job, deployment.DeploymentSpec("s3://b/savepoint", 4, None))
    assert patch.call_args.args[-1]["spec"]["job"]["initialSavepointPath"] == "s3://b/savepoint"
    patch.dry_run.side_effect = ApiException(403, "Forbidden")
    with pytest.raises(RequestError, match="refuses to patch the FlinkSessionJob") as caught:
        check_hand_over(session_job)
    assert "the right to patch flinksessionjobs" in str(caught.value)


@pytest.mark.parametrize(
    ("job_id", "is_refused"),
    [
        ("000000003a7bd3e20000000000000001", True),
        ("ffffffffbd3e21c00000000000000012", True),
        ("00000000000000000000000000000000", False),  # an application with high availability
        ("000000003a7bd3e20000000000000000", False),  # likewise, since Flink 1.19
        ("3a7bd3e21c0d4e5f60718293a4b5c6d7", False),
    ],
)
def test_session_job_of_the_operator_is_not_started_from_a_jar(
    job_id: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobOverview(job_id, "clicks", "RUNNING")
    cluster = SimpleNamespace(address="http://flink", jobs=lambda: [job], job=lambda _: None)
    monkeypatch.setattr(inspection, "open_flink", lambda _: nullcontext(cluster))
    monkeypatch.setattr(inspection, "check_hand_over", lambda _: None)
    expected = (RequestError, "manages the job as a FlinkSessionJob") if is_refused else (StoreError, "is not running")
    with pytest.raises(expected[0], match=expected[1]):
        inspection.inspect_job("flink", "clicks", StopMode.STOP, "s3://b/savepoints", RunJar("flink", "clicks.jar"))


@pytest.mark.parametrize("taking", [StopMode.STOP, StopMode.CANCEL])
def test_jobmanager_that_ends_with_its_job_is_refused_for_a_savepoint_too(
    taking: StopMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hand-over and going back ask it whether the job has ended; both would fail, and no job would run."""
    job = JobOverview("1" * 32, "clicks", "RUNNING")
    options = {"execution.shutdown-on-application-finish": "true"}
    cluster = MagicMock(address="http://flink", jobs=lambda: [job], configuration=lambda: options)
    monkeypatch.setattr(inspection, "open_flink", lambda _: nullcontext(cluster))
    monkeypatch.setattr(inspection, "check_hand_over", lambda _: None)
    with pytest.raises(RequestError, match="the JobManager ends with its job"):
        inspection.inspect_job("flink", "clicks", taking, "s3://b/savepoints", WHERE)


def test_patch_is_for_the_version_that_was_read(resource: dict[str, Any], patch: Mock) -> None:
    """Otherwise a patch that arrives late could overwrite the specification of a later patch with the same nonce."""
    resource["metadata"] = {"name": "clicks", "resourceVersion": "77"}
    redeploy(WHERE, DeploymentSpec("s3://b/s", 2, None))
    assert patch.call_args.args[-1]["metadata"] == {"resourceVersion": "77"}
    patch.side_effect = ApiException(409, "Conflict")
    with pytest.raises(StoreError, match="temporary problem"):
        redeploy(WHERE, DeploymentSpec("s3://b/s", 2, None))


def test_job_that_goes_back_to_a_checkpoint_does_not_own_it(resource: dict[str, Any], patch: Mock) -> None:
    for taking, is_set in ((StopMode.CHECKPOINT, True), (StopMode.STOP, False)):
        before = JobToRestart(
            "flink", "1" * 32, "clicks", taking, "s3://b/c", 2, WHERE, DeploymentSpec(None, 2, None), 7
        )
        go_back(before, "run", "s3://b/c/chk-8")
        options = patch.call_args.args[-1]["spec"]["flinkConfiguration"]
        assert ("NO_CLAIM" in options.values()) is is_set
    assert resource["spec"]["job"] == {"parallelism": 2}


@pytest.mark.parametrize("refers", [True, False])
def test_job_restores_in_no_claim_mode_if_its_result_refers_to_files(patch: Mock, refers: bool) -> None:
    start_job(WHERE, Start("s3://b/result", 3, None, refers))
    options = patch.call_args.args[-1]["spec"]["flinkConfiguration"]
    names = ("execution.state-recovery.claim-mode", "execution.savepoint-restore-mode")
    assert [options.get(name) for name in names] == [("NO_CLAIM" if refers else None)] * 2


@pytest.mark.parametrize(
    ("has_no_claim", "needs_no_claim", "is_patched"), [(True, True, False), (True, False, False), (False, True, True)]
)
def test_deployment_with_the_desired_fields_is_not_patched(
    resource: dict[str, Any], patch: Mock, has_no_claim: bool, needs_no_claim: bool, is_patched: bool
) -> None:
    resource["spec"]["job"] |= {"initialSavepointPath": "s3://b/s", "savepointRedeployNonce": 4}
    resource["spec"]["flinkConfiguration"] = (
        dict.fromkeys(deployment.CLAIM_MODE_OPTIONS, "NO_CLAIM") if has_no_claim else {}
    )
    redeploy(WHERE, DeploymentSpec("s3://b/s", 2, None, no_claim=needs_no_claim))
    assert bool(patch.call_args_list) is is_patched


TARGET, SAVEPOINT = "s3://b/result", "s3://b/savepoint"


def redeployed(resource: dict[str, Any], snapshot: str, where: PatchDeployment = WHERE) -> JobToRestart:
    """Redeploy a resource from a snapshot; return the job that ran before."""
    resource["spec"]["job"] |= {"initialSavepointPath": snapshot, "savepointRedeployNonce": 5}
    resource["status"] = {"jobStatus": {"jobId": "2" * 32, "state": "RUNNING"}}
    fields = DeploymentSpec("s3://b/older", 2, None)
    return JobToRestart("flink", "1" * 32, "clicks", StopMode.STOP, "s3://b", 2, where, fields, nonce=4, target=TARGET)


@pytest.mark.parametrize(("snapshot", "is_refused"), [(TARGET, False), (SAVEPOINT, False), ("s3://b/another", True)])
def test_resource_that_somebody_else_has_redeployed_is_not_taken_back(
    snapshot: str, is_refused: bool, resource: dict[str, Any], patch: Mock
) -> None:
    """For example, another run has handed the job over before the task `go_back` of an old run is cleared."""
    before = redeployed(resource, snapshot)
    if is_refused:
        with pytest.raises(RequestError, match="somebody else has redeployed the FlinkDeployment") as caught:
            go_back(before, "run", SAVEPOINT)
        assert caught.value.found == snapshot
    else:
        go_back(before, "run", SAVEPOINT)
    assert bool(patch.call_args_list) is (snapshot == TARGET)


def test_job_of_a_resource_that_somebody_else_has_started_is_neither_replaced_nor_taken_back(
    resource: dict[str, Any], patch: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of the specification lets the operator start an ended job from its last savepoint."""
    before = msgspec.structs.replace(redeployed(resource, "s3://b/older"), nonce=5, is_only_one=True)
    lines = [JobOverview("1" * 32, "clicks", "FINISHED"), JobOverview("2" * 32, "clicks", "RUNNING")]
    cluster = SimpleNamespace(address="flink", jobs=lambda: lines, job_overview=lambda _: lines[0])
    monkeypatch.setattr(stopping, "open_flink", lambda _: nullcontext(cluster))
    for start in (
        lambda: go_back(before, "run", SAVEPOINT),
        lambda: hand_job_over(WHERE, Start(TARGET, 3, None), "run", before),
    ):
        with pytest.raises(RequestError, match="somebody else has started a job of this name"):
            start()
    assert not patch.call_args_list


@pytest.mark.parametrize("kind", ["FlinkSessionJob", "FlinkDeployment"])
@pytest.mark.parametrize("snapshot", [TARGET, SAVEPOINT])
def test_new_job_of_a_session_job_ends_before_the_old_one_is_started(
    kind: Any, snapshot: str, resource: dict[str, Any], patch: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink's operator does not wait for the end of a job that it cancels, unless it deletes its cluster."""
    before = redeployed(resource, snapshot, PatchDeployment("flink", "clicks", None, kind))
    lines = [JobOverview("2" * 32, "clicks", "RUNNING")]
    cancel = Mock(side_effect=lambda _: lines.append(JobOverview("2" * 32, "clicks", "CANCELED")))
    cluster = SimpleNamespace(job_overview=lambda _: lines[-1], cancel=cancel)
    monkeypatch.setattr(stopping, "open_flink", lambda _: nullcontext(cluster))
    question = end_pending_work(before, "run")
    if kind == "FlinkSessionJob" and snapshot == TARGET:
        assert question == JobEndQuestion("flink", "2" * 32)
        cancel.assert_called_once_with("2" * 32)
        assert end_pending_work(before, "run") is None
    else:
        assert question is None
        assert not cancel.called
    assert not patch.called


def test_job_that_was_handed_over_to_a_resource_is_only_looked_for(resource: dict[str, Any], patch: Mock) -> None:
    """Somebody may have changed the job's parallelism since, so the result may be older than the job's state."""
    before = redeployed(resource, TARGET)
    resource["spec"]["job"]["parallelism"] = 7
    assert question_for_started_job(before, "run", TARGET) == RedeploymentQuestion(WHERE, 5)
    assert question_for_started_job(before, "run", "s3://b/another") is None
    assert not patch.called

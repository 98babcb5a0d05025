"""A job with a changelog is stopped only if it will be started in a claim mode in which it can make checkpoints."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from rescale.airflow.flink import deployment
from rescale.airflow.hand_overs import HandOver, PatchDeployment, Print, RunJar
from rescale.airflow.job.claim_mode import refuse_no_claim
from rescale.flink.start import CLAIM_MODE_OPTIONS
from rescale.flink_rest.client import StateBackend, StopMode
from rescale.flink_rest.running_job import Job, Vertex
from rescale.text.errors import RequestError

JOB = Job("1" * 32, "clicks", "RUNNING", (Vertex("2" * 32, "counts", 2, 128, {}),))
JAR, RESOURCE = RunJar("http://flink", "clicks.jar"), PatchDeployment("flink", "clicks")


def look(
    monkeypatch: pytest.MonkeyPatch,
    hand_over: HandOver,
    resource: dict[str, object] | None = None,
    cluster: dict[str, str] | None = None,
    *,
    taking: StopMode = StopMode.STOP,
    changelog: bool = True,
    refers: bool = False,
) -> None:
    backend = StateBackend("EmbeddedRocksDBStateBackend", changelog)
    flink = Mock(
        address="http://flink", state_backend=Mock(return_value=backend), configuration=Mock(return_value=cluster or {})
    )
    document = {"spec": {"job": {}, "flinkConfiguration": resource or {}}}
    api = Mock(get_namespaced_custom_object=Mock(return_value=document))
    monkeypatch.setattr(deployment, "open_kubernetes", lambda _: api)
    refuse_no_claim(flink, JOB, hand_over, taking, refers_to_source=refers)


def test_jar_cannot_start_a_job_with_a_changelog(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="the job has a changelog") as caught:
        look(monkeypatch, JAR)
    assert caught.value.operator == "clicks"
    assert "print the command" in str(caught.value.advice)


@pytest.mark.parametrize(
    ("resource", "cluster"), [({}, {}), ({CLAIM_MODE_OPTIONS[0]: "no_claim"}, {CLAIM_MODE_OPTIONS[0]: "CLAIM"})]
)
def test_resource_without_claim_mode_is_refused(
    resource: dict[str, object], cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RequestError, match="the job has a changelog") as caught:
        look(monkeypatch, RESOURCE, resource, cluster)
    assert "flinkConfiguration" in str(caught.value.advice)


@pytest.mark.parametrize("name", CLAIM_MODE_OPTIONS)
def test_resource_with_claim_mode_is_accepted_unless_the_result_refers_to_the_source(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(monkeypatch, RESOURCE, {name: "CLAIM"})
    look(monkeypatch, RESOURCE, {"execution": {name.removeprefix("execution."): "claim"}})
    look(monkeypatch, RESOURCE, {}, {name: "CLAIM"})
    with pytest.raises(RequestError, match="the job has a changelog"):
        look(monkeypatch, RESOURCE, {name: "CLAIM"}, refers=True)


def test_job_that_would_go_back_to_its_last_checkpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job does not own that checkpoint then, so it is started in NO_CLAIM mode."""
    with pytest.raises(RequestError, match="nor after going back") as caught:
        look(monkeypatch, RESOURCE, {CLAIM_MODE_OPTIONS[0]: "CLAIM"}, taking=StopMode.CHECKPOINT)
    assert "choose a savepoint and set" in str(caught.value.advice)


@pytest.mark.parametrize("where", ["resource", "cluster"])
def test_session_job_is_refused_whatever_its_options(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink's operator names the mode in its request, and Flink prefers that to the options."""
    session_job = PatchDeployment("flink", "clicks", None, "FlinkSessionJob")
    with pytest.raises(RequestError, match="the job has a changelog") as caught:
        look(monkeypatch, session_job, **{where: {CLAIM_MODE_OPTIONS[0]: "CLAIM"}})
    assert caught.value.advice == "first start the job without its changelog"


@pytest.mark.parametrize("hand_over", [JAR, RESOURCE, Print()])
def test_jobs_without_a_changelog_and_printed_commands_are_accepted(
    hand_over: HandOver, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(monkeypatch, hand_over, changelog=isinstance(hand_over, Print))

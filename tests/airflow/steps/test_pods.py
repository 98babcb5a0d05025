"""Steps as pods: the DAG if a pod template is given, and the error of a pod that failed."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from kubernetes.client import (
    V1ContainerState,
    V1ContainerStateTerminated,
    V1ContainerStatus,
    V1ObjectMeta,
    V1Pod,
    V1PodStatus,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from rescale.airflow import savepoint_tasks
from rescale.airflow.steps.pods import StepPod, error_of, exit_code
from rescale.demo.airflow_home import DAG_ID, PARSING_LIMITS, dag_folder
from rescale.runstate.places import places_of
from rescale.runstate.step import Step
from rescale.text.errors import IntegrityError, RescaleError, StoreError
from support.pipeline import claimed_plan
from support.snapshots import directory

STEPS = {"reshuffle_keyed_state", "redistribute_operator_state", "validate"}

_PARSE = """
import json, sys
try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag
bag = DagBag(sys.argv[1])
tasks = bag.dags[sys.argv[2]].task_dict
print(json.dumps({name: [type(task).__name__, sorted(task.upstream_task_ids)] for name, task in tasks.items()}))
"""


@pytest.mark.slow
def test_only_steps_become_pods_if_a_pod_template_is_given(tmp_path: Path) -> None:
    home = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    def tasks(**environment: str) -> dict[str, Any]:
        answer = subprocess.run(
            [sys.executable, "-c", _PARSE, str(dag_folder()), DAG_ID],
            env={**os.environ, **home, **PARSING_LIMITS, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        listed: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
        return listed

    (tmp_path / "driver.yaml").write_text("{}")
    processes, pods = tasks(), tasks(RESCALE_DRIVER_POD=str(tmp_path / "driver.yaml"))
    assert {name for name, (kind, _) in pods.items() if kind == "StepPod"} == STEPS
    assert "StepPod" not in [kind for kind, _ in processes.values()]
    assert {name: upstream for name, (_, upstream) in pods.items()} == {
        name: upstream for name, (_, upstream) in processes.items()
    }


def pod(code: int | None) -> V1Pod:
    """Return a pod whose container ended with an exit code, or whose end is unknown."""
    state = V1ContainerState(terminated=None if code is None else V1ContainerStateTerminated(exit_code=code))
    sidecar = V1ContainerState(terminated=V1ContainerStateTerminated(exit_code=3))
    statuses = [
        V1ContainerStatus(name=name, state=of, image="", image_id="", ready=False, restart_count=0)
        for name, of in (("sidecar", sidecar), ("driver", state))
    ]
    return V1Pod(status=V1PodStatus(container_statuses=statuses))


@pytest.mark.parametrize("code", [0, 1, 4, 137, None])
def test_exit_code_is_that_of_the_driver_container(code: int | None) -> None:
    assert exit_code(pod(code)) == code


def test_exit_code_of_a_missing_pod_is_unknown() -> None:
    assert exit_code(None) is None
    assert exit_code(V1Pod()) is None
    assert exit_code(V1Pod(status=V1PodStatus())) is None
    untold = V1ContainerStatus(name="driver", image="", image_id="", ready=False, restart_count=0)
    assert exit_code(V1Pod(status=V1PodStatus(container_statuses=[untold]))) is None


def error_of_pod(tmp_path: Path, document: dict[str, Any] | None, code: int | None) -> RescaleError:
    result = tmp_path / "result.json"
    if document is not None:
        result.write_text(json.dumps(document))
    return error_of(Step.VALIDATE, code, str(result), "Pod validate-x returned a failure.\nremote_pod: ...")


def failed(error: RescaleError) -> dict[str, Any]:
    """Return the result document of a step that failed with an error."""
    return {"status": "failed", **msgspec.to_builtins(error.document())}


def test_error_in_the_result_document_of_a_pod_is_raised(tmp_path: Path) -> None:
    error = error_of_pod(
        tmp_path,
        {"status": "failed", **msgspec.to_builtins(IntegrityError("a record is missing", state="s").document())},
        4,
    )
    assert isinstance(error, IntegrityError)
    assert (error.what, error.state, error.is_final) == ("a record is missing", "s", True)


@pytest.mark.parametrize(
    ("document", "code", "phase"),
    [
        (None, 137, "exit code 137"),
        (None, None, "Pod validate-x returned a failure."),
        (
            failed(IntegrityError("of an earlier try")),
            137,
            "exit code 137",
        ),
        ({"status": "done"}, 1, "exit code 1"),
        ({"status": "done"}, None, "Pod validate-x returned a failure."),
    ],
)
def test_lost_pod_raises_store_error(
    tmp_path: Path, document: dict[str, Any] | None, code: int | None, phase: str
) -> None:
    error = error_of_pod(tmp_path, document, code)
    assert isinstance(error, StoreError)
    assert (error.is_final, error.found) == (False, phase)


def test_unreadable_result_document_of_a_pod_raises_store_error(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"status": "fai')
    error = error_of_pod(tmp_path, None, 4)
    assert isinstance(error, StoreError)
    assert error.found == "exit code 4"


def test_output_of_a_step_is_the_same_from_a_pod_and_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds and metrics stay in the result document, because outputs of tasks are small."""
    plan = claimed_plan(directory("2-finished"), str(tmp_path / "target"), ["3"])
    result = Path(places_of(plan).result(Step.RESHUFFLE))
    moved = {"handles": "/handles", "streams": 2, "bytes": 7}
    result.write_text(json.dumps({"status": "done", **moved, "seconds": 1.5, "metrics": {"records": 3}}))
    monkeypatch.setattr(KubernetesPodOperator, "trigger_reentry", lambda *_: None)
    planned, ti = {"plan": places_of(plan).plan, "published": False}, Mock()
    step = StepPod(
        task_id="move",
        step=Step.RESHUFFLE,
        plan_output=planned,
        template="/driver.yaml",
        summary_of=savepoint_tasks._moved_summary,
    )
    step.trigger_reentry({"params": {"connection": None}, "ti": ti}, {})  # type: ignore[typeddict-item]
    ti.xcom_push.assert_called_once_with("return_value", moved)


def a_step() -> StepPod:
    return StepPod(
        task_id="validate",
        step=Step.VALIDATE,
        plan_output={},
        template="/driver.yaml",
        summary_of=savepoint_tasks._moved_summary,
    )


def test_lines_of_the_driver_are_logged_at_their_levels(caplog: pytest.LogCaptureFixture) -> None:
    lines = ("validate: 45 KB to read", "warning: something is odd", "ERROR Spark: Executor: lost", "error: it is torn")
    api = Mock()
    api.read_namespaced_pod_log.return_value = io.BytesIO("\n".join(lines).encode())
    step = a_step()
    step.client = api
    caplog.set_level(logging.DEBUG)
    started = datetime.now(UTC) - timedelta(seconds=90)
    step._write_logs(V1Pod(metadata=V1ObjectMeta(name="driver-1", namespace="here")), since_time=started)
    levels = ("INFO", "WARNING", "ERROR", "ERROR")
    assert [(record.levelname, record.message) for record in caplog.records] == list(zip(levels, lines, strict=True))
    arguments = api.read_namespaced_pod_log.call_args.kwargs
    assert (arguments["name"], arguments["container"]) == ("driver-1", "driver")
    assert 90 <= arguments["since_seconds"] <= (datetime.now(UTC) - started).total_seconds() + 1


def test_lines_of_the_driver_are_read_from_a_node_whose_clock_is_ahead(caplog: pytest.LogCaptureFixture) -> None:
    api = Mock()
    api.read_namespaced_pod_log.return_value = io.BytesIO(b"validate: 45 KB to read")
    step = a_step()
    step.client = api
    caplog.set_level(logging.INFO)
    ahead = datetime.now(UTC) + timedelta(hours=1)
    step._write_logs(V1Pod(metadata=V1ObjectMeta(name="driver-1", namespace="here")), since_time=ahead)
    assert [record.message for record in caplog.records] == ["validate: 45 KB to read"]
    assert api.read_namespaced_pod_log.call_args.kwargs["since_seconds"] == 1, "Kubernetes refuses less than one second"


def test_form_fields_and_trace_reach_the_pod_of_a_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rescale.airflow.forms.filled_form import proof_of
    from rescale.airflow.steps import step_task

    monkeypatch.setenv(step_task.DRIVER_POD_VARIABLE, "/driver.yaml")
    monkeypatch.setattr("rescale.airflow.steps.pods.KubernetesPodOperator.execute", lambda *_: None)
    plan = claimed_plan(directory("2-source"), str(tmp_path / "target"), ["3"])
    planned = {"published": False, "plan": places_of(plan).plan}
    proof_arguments = lambda params: ["--proof", proof_of(params).value]  # noqa: E731
    step = step_task.step_task(
        Step.VALIDATE, "validate", "Validate", "doc", savepoint_tasks._certificate_summary, proof_arguments
    )(planned, "plan")
    span = NonRecordingSpan(
        SpanContext(0x4BF92F3577B34DA6, 0x00F067AA0BA902B7, is_remote=True, trace_flags=TraceFlags(1))
    )
    with use_span(span):
        step.execute({"params": {"connection": None, "proof": " files ", "require_approval": False}, "ti": Mock()})
    assert step.arguments[:4] == ["python3", "-m", "validate_coverage", "--plan"]
    assert step.arguments[-2:] == ["--proof", "files"]
    traced = {var.name: var.value for var in step.env_vars}
    assert traced == {"TRACEPARENT": "00-00000000000000004bf92f3577b34da6-00f067aa0ba902b7-01"}

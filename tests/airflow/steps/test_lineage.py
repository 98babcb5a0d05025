"""Lineage of a rescale in OpenLineage's own classes; without a listener nothing is computed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.sdk import DAG
from airflow.utils.state import TaskInstanceState
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from rescale.airflow.steps.lineage import planned_lineage, published_lineage
from rescale.airflow.steps.rescale_task import rescale_task
from rescale.runstate.certificate import read_certificate
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory


def run_event(lineage: Any) -> dict[str, Any]:
    """Return the event, as it is sent, of a task with this lineage."""
    with DAG("rescale_savepoint", schedule=None):
        task = rescale_task(lambda params: {}, "publish", "Publish")().operator  # noqa: ARG005
    task.lineage = lineage
    run, instance = SimpleNamespace(run_id="a-run"), SimpleNamespace(task=task)
    extracted = ExtractorManager().extract_metadata(run, task, TaskInstanceState.SUCCESS, instance)
    event = RunEvent(
        eventTime="2026-01-01T00:00:00Z",
        eventType=RunState.COMPLETE,
        run=Run("01a203bd-0cb2-733f-8944-453a082d80dd"),
        job=Job("airflow", "rescale_savepoint.publish"),
        inputs=extracted.inputs,
        outputs=extracted.outputs,
    )
    document: dict[str, Any] = json.loads(Serde.to_json(event))
    return document


def test_lineage_of_a_result_names_source_shapes_and_certificate(tmp_path: Path) -> None:
    plan = plan_rescale(directory("2-clicks"), str(tmp_path / "target"), ["3"])
    execute_without_spark(plan)
    certificate = read_certificate(plan.target)
    event = run_event(published_lineage(plan, certificate, "0" * 64))
    (source,), (result,) = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("file", plan.source)
    assert (result["namespace"], result["name"]) == ("file", plan.target)
    shapes = [
        {
            operator["operator"]: (operator["parallelism"], operator["maxParallelism"])
            for operator in snapshot["facets"]["rescale_shape"]["operators"]
        }
        for snapshot in (source, result)
    ]
    assert (shapes[0]["visits"], shapes[1]["visits"]) == ((4, 128), (3, 128))
    proven = result["facets"]["rescale_certificate"]
    assert (proven["verdict"], proven["proof"], proven["sha256"]) == ("complete", "records", "0" * 64)
    assert (proven["uri"], proven["metadataSha256"]) == (
        f"{plan.target}.rescale/certificate.json",
        certificate.candidate_sha256,
    )
    statistics = result["outputFacets"]["outputStatistics"]
    assert (statistics["size"], statistics["fileCount"]) == (plan.bytes_moved, len([*Path(plan.target).iterdir()]))


def test_lineage_of_a_plan_has_a_source_and_no_result() -> None:
    event = run_event(planned_lineage(plan_rescale(directory("2-clicks"), "s3://bucket/a/target", ["3"])))
    assert [dataset["name"] for dataset in event["inputs"]] == [directory("2-clicks")]
    assert event["outputs"] == []


def test_places_in_s3_are_named_as_openlineage_names_them(tmp_path: Path) -> None:
    plan = plan_rescale(directory("2-clicks"), str(tmp_path / "target"), ["3"])
    lineage = planned_lineage(plan)
    moved = lineage._replace(source=lineage.source._replace(uri="s3://bucket/a/savepoint"))
    (source,) = run_event(moved)["inputs"]
    assert (source["namespace"], source["name"]) == ("s3://bucket", "a/savepoint")


def test_other_tasks_have_no_lineage() -> None:
    event = run_event(None)
    assert (event["inputs"], event["outputs"]) == ([], [])


@pytest.mark.slow
def test_openlineage_is_not_imported_without_a_listener() -> None:
    module = "rescale.airflow.steps.rescale_task"
    program = f"import sys, {module}; print([m for m in sys.modules if 'openlineage.client' in m])"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "[]"

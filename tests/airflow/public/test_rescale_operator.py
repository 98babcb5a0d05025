"""A rescale as one operator: its output, a second run, an approval, a pod."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from rescale.airflow import RESCALED_SAVEPOINT, RescaleOperator
from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.steps.retries import TaskEnded
from rescale.process import ResultDocument
from rescale.runstate.documents import load_plan
from support.asset_events import AssetEvents
from support.dag_runner import DagRunner
from support.pipeline import execute_without_spark
from support.snapshots import directory

DAGS = Path(__file__).parent / "dags" / "groups.py"


@pytest.mark.slow
def test_published_result_is_described_and_a_second_run_emits_no_second_event(dags: DagRunner, tmp_path: Path) -> None:
    target = str(tmp_path / "rescaled")
    run = dags.run(DAGS, "one_operator", source=directory("2-clicks"), target=target)
    assert run.state == "success", run.log
    described = run.outputs["rescale"]
    assert described["target"] == target
    assert described["starting"] == {"snapshot": target, "parallelism": 3, "max_parallelism": None, "refers": False}
    (event,) = [event for event in run.events if event["uri"] == target]
    assert event["certificate_sha256"] == described["certificate_sha256"]
    assert event["shape"]["visits"]["parallelism"] == 4
    second_run = dags.run(DAGS, "one_operator", source=directory("2-clicks"), target=target)
    assert second_run.outputs["rescale"] == described, second_run.log
    assert second_run.events == run.events


def test_plan_that_needs_an_approval_is_not_executed(
    dags: DagRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("approval: {required: {always: true}}")
    monkeypatch.setenv("RESCALE_SETTINGS", str(settings))
    target = tmp_path / "rescaled"
    run = dags.run(DAGS, "one_operator", source=directory("2-clicks"), target=str(target))
    assert run.state == "failed"
    assert "nobody has approved it" in run.log
    assert "use rescale_task_group, which asks for the approval" in run.log
    assert not (target / "_metadata").exists()


@pytest.mark.parametrize("field", ["source", "target"])
def test_output_of_a_task_that_did_not_run_is_refused_as_a_place(field: str, tmp_path: Path) -> None:
    places = {"source": directory("2-source"), "target": str(tmp_path / "rescaled"), field: None}
    with pytest.raises(TaskEnded, match=f"the argument '{field}' has a wrong value"):
        RescaleOperator(task_id="rescale", parallelism=3, **places).execute({})


class NoEvents:
    """Events of an asset that has none."""

    def ascending(self, _: bool) -> NoEvents:
        return self

    def limit(self, _: int) -> list[Any]:
        return []


def test_operator_is_deferred_while_its_pod_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    template = tmp_path / "driver.yaml"
    template.write_text("{}")
    monkeypatch.setenv(DRIVER_POD_VARIABLE, str(template))
    begun: list[Any] = []

    def begin(pod: Any, _: Any) -> None:
        begun.append(pod.arguments)
        raise TaskDeferred(trigger=Mock(), method_name="trigger_reentry")

    monkeypatch.setattr("rescale.airflow.steps.pods.KubernetesPodOperator.execute", begin)
    target = str(tmp_path / "rescaled")
    operator = RescaleOperator(task_id="rescale", source=directory("2-source"), target=target, parallelism=3)
    pushed: dict[str, Any] = {}
    instance = SimpleNamespace(
        dag_id="a-dag", run_id="a-run", task_id="rescale", task=operator, xcom_push=pushed.__setitem__
    )
    outlet = SimpleNamespace(extra=None)
    context: Any = {
        "ti": instance,
        "dag_run": SimpleNamespace(dag_id="a-dag", run_id="a-run"),
        "params": {},
        "inlet_events": AssetEvents(RESCALED_SAVEPOINT, event=NoEvents()),
        "outlet_events": AssetEvents(RESCALED_SAVEPOINT, event=outlet),
    }
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    assert deferred.value.method_name == "pod_reported"
    planned = deferred.value.kwargs["plan_output"]
    result = f"{target}.rescale/result-move_and_validate.json"
    main = ["python3", "-m", "move_and_validate", "--plan", planned["plan"], "--result", result, "--proof", "records"]
    assert begun == [main]
    assert deferred.value.kwargs == {"plan_output": planned}
    with pytest.raises(TaskDeferred) as deferred_again:
        operator.pod_reported(context, {"status": "success"}, planned={"of": "an older release"})
    assert deferred_again.value.kwargs == deferred.value.kwargs
    assert begun == [main, main]
    monkeypatch.setattr("rescale.airflow.steps.pods.KubernetesPodOperator.trigger_reentry", lambda *_: None)
    monkeypatch.setattr("rescale.airflow.steps.pods.read_result", lambda uri: ResultDocument(uri, b"{}"))
    execute_without_spark(load_plan(planned["plan"]))
    published = operator.pod_reported(context, {"status": "success"}, planned)
    assert published["target"] == target
    assert outlet.extra["uri"] == published["target"]
    assert not [record for record in caplog.records if "outside of the Task Runner" in record.message]


def test_next_try_goes_on_with_the_checkpoint_of_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = tmp_path / "driver.yaml"
    template.write_text("{}")
    monkeypatch.setenv(DRIVER_POD_VARIABLE, str(template))
    begin = Mock(side_effect=lambda *_: defer_step())
    monkeypatch.setattr("rescale.airflow.steps.pods.KubernetesPodOperator.execute", begin)
    checkpoints, target = tmp_path / "checkpoints", str(tmp_path / "rescaled")

    def plan_of_a_try(run: str) -> dict[str, Any]:
        operator = RescaleOperator(task_id="rescale", source=str(checkpoints), target=target, parallelism=3)
        instance = SimpleNamespace(
            dag_id="a-dag",
            run_id=run,
            task_id="rescale",
            task=operator,
            xcom_push=lambda *_: None,
            get_dr_count=lambda **_: 0,
        )
        context: Any = {"ti": instance, "dag_run": SimpleNamespace(dag_id="a-dag", run_id=run), "params": {}}
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context)
        plan_output: dict[str, Any] = deferred.value.kwargs["plan_output"]
        return plan_output

    shutil.copytree(directory("2-source"), checkpoints / "chk-1")
    planned = plan_of_a_try("a-run")
    assert planned["source"] == str(checkpoints / "chk-1")
    shutil.copytree(directory("2-source"), checkpoints / "chk-2")
    assert plan_of_a_try("a-run")["plan"] == planned["plan"]
    with pytest.raises(TaskEnded, match="the target is claimed by another plan"):
        plan_of_a_try("another-run")


def defer_step() -> None:
    raise TaskDeferred(trigger=Mock(), method_name="trigger_reentry")

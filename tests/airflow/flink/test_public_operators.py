"""Operators for users' DAGs, with a job of a real session cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from rescale.airflow import (
    CheckpointSensor,
    CheckpointTrigger,
    DiscardOperator,
    HandOverOperator,
    TakeCheckpointOperator,
    TakeSavepointOperator,
)
from rescale.airflow.flink import deployment
from rescale.airflow.steps.retries import TaskEnded
from support.dag_runner import dag_runner
from support.deferring import TaskState, run_operator
from support.pipeline import execute_without_spark, plan_rescale
from support.session_cluster import HEAP_TIMERS, ONE_CHECKPOINT, SessionCluster, native_options, take_checkpoint

EXAMPLES = Path(__file__).parents[3] / "dags" / "examples"


def with_checkpoints(cluster: SessionCluster, interval: str) -> str:
    """Start a job that makes checkpoints, and wait for its first one."""
    job_id = cluster.run(2, options={**native_options(cluster, {}), "execution.checkpointing.interval": interval})
    take_checkpoint(cluster, job_id)
    return job_id


def test_stopped_job_is_started_from_the_result(cluster: SessionCluster, tmp_path: Path) -> None:
    job_id = cluster.run(2)
    state = TaskState()
    place = {"flink": cluster.address, "job": "counts", "savepoints": str(cluster.folder / "savepoints")}
    taken = run_operator(TakeSavepointOperator(task_id="take", taking="stop", **place), "stop", state)
    assert (taken["job"], taken["state"]) == (job_id, "FINISHED")
    taken_by_retry = run_operator(TakeSavepointOperator(task_id="take", taking="stop", **place), "stop", state)
    assert taken_by_retry == taken, "a retry, when no job has this name any more, took another savepoint"
    with pytest.raises(TaskEnded, match="there is no such job"):
        run_operator(TakeSavepointOperator(task_id="another", taking="stop", **place), "stop")
    plan = plan_rescale(taken["savepoint"], str(tmp_path / "rescaled"), ["3"])
    execute_without_spark(plan)
    start = plan.start._asdict()
    hand_over = {"flink": cluster.address, "jar": "counts.jar", "entry_class": "Counts"}
    started = run_operator(HandOverOperator(task_id="start", start=start, **hand_over), "stop")
    assert (started["parallelism"], started["name"]) == (3, "counts")
    assert run_operator(HandOverOperator(task_id="start", start=start, **hand_over), "stop")["job"] == started["job"]
    assert cluster.alive() == {started["job"]}


def test_hand_over_without_a_jar_prints_the_command() -> None:
    start = {"snapshot": "/rescaled", "parallelism": 3, "max_parallelism": None}
    answer = run_operator(HandOverOperator(task_id="start", start=start), "print")
    assert answer == {"start": "flink run -s /rescaled -p 3 <your-job.jar>"}


def test_arguments_of_the_program_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    hand_over = Mock(return_value={"start": "flink run"})
    monkeypatch.setattr("rescale.airflow.flink.operators.hand_job_over", hand_over)
    start, program = {"snapshot": "/rescaled", "parallelism": 3, "max_parallelism": None}, ("--prefix", "", " a ", "b")
    task = HandOverOperator(task_id="start", start=start, flink="flink", jar="a.jar", program_arguments=program)
    run_operator(task, "run")
    assert hand_over.call_args.args[0].arguments == program


@pytest.fixture
def patch_of_deployment(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return the mock of the request to Kubernetes that patches a FlinkDeployment."""
    resource: dict[str, Any] = {"spec": {"job": {"parallelism": 2}}}

    def patch_resource(*arguments: Any) -> dict[str, Any]:
        resource["spec"] = arguments[-1]["spec"]
        return resource

    def send(*arguments: Any, dry_run: str | None = None, **_: Any) -> Any:
        return patch(*arguments) if dry_run is None else arguments[-1]

    patch = Mock(side_effect=patch_resource)
    api = SimpleNamespace(get_namespaced_custom_object=lambda *_, **__: resource, patch_namespaced_custom_object=send)
    monkeypatch.setattr(deployment, "open_kubernetes", lambda _: api)
    return patch


@pytest.mark.parametrize("snapshot", ["", None])  # an empty template, and the output of a task that did not run
def test_no_job_is_started_without_a_snapshot(snapshot: str | None, patch_of_deployment: Mock) -> None:
    start = {"snapshot": snapshot, "parallelism": 3, "max_parallelism": None}
    context: Any = {"ti": SimpleNamespace(dag_id="a-dag", run_id="a-run", task_id="start")}
    with pytest.raises(TaskEnded, match="there is no snapshot to start the job from"):
        HandOverOperator(task_id="start", start=start, deployment="flink/clicks").execute(context)
    patch_of_deployment.assert_not_called()


@pytest.mark.parametrize("in_start", [True, False])
def test_parallelism_may_be_a_rendered_template(in_start: bool, patch_of_deployment: Mock) -> None:
    start = {"snapshot": "/rescaled", "parallelism": "6" if in_start else 3, "max_parallelism": "128"}
    arguments = {} if in_start else {"parallelism": "6"}
    context: Any = {"ti": SimpleNamespace(dag_id="a-dag", run_id="a-run", task_id="start")}
    for _ in range(2):  # the second try finds the first one's patch
        with pytest.raises(TaskDeferred):
            HandOverOperator(task_id="start", start=start, deployment="flink/clicks", **arguments).execute(context)
    (patched,) = patch_of_deployment.call_args_list
    assert patched.args[-1]["spec"]["job"]["parallelism"] == 6


@pytest.mark.parametrize(
    "start",
    [
        "flink run -s /rescaled -p 3 <your-job.jar>",
        {"snapshot": "/rescaled"},
        {"snapshot": "/rescaled", "parallelism": "six", "max_parallelism": None},
    ],
)
def test_wrong_start_is_refused(start: Any) -> None:
    with pytest.raises(TaskEnded, match="the argument 'start' does not describe the start of a job"):
        run_operator(HandOverOperator(task_id="start", start=start), "wrong")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("deployment", name) for name in ("clicks", "flink/clicks/1", "namespace/flink/clicks")),
        ("program_arguments", "--topic clicks"),  # each letter would be an argument
        ("program_arguments", [1]),
        ("flink_options", "state.backend.type=rocksdb"),
        ("flink_options", {"parallelism.default": 3}),
        ("jar", 5),
    ],
)
def test_wrong_argument_of_a_hand_over_is_refused(argument: str, value: Any, patch_of_deployment: Mock) -> None:
    start = {"snapshot": "/rescaled", "parallelism": 3, "max_parallelism": None}
    operator = HandOverOperator(task_id="start", start=start, **{argument: value})
    with pytest.raises(TaskEnded, match=f"the argument '{argument}' has a wrong value"):
        run_operator(operator, "wrong")
    patch_of_deployment.assert_not_called()


@pytest.mark.slow
def test_native_savepoint_that_would_lack_timers_is_not_taken(cluster: SessionCluster) -> None:
    job_id = cluster.run(2, main="Alarms", options={**native_options(cluster, HEAP_TIMERS), **ONE_CHECKPOINT})
    take_checkpoint(cluster, job_id)
    folder = cluster.folder / "native-savepoints"
    arguments = {"flink": cluster.address, "job": job_id, "savepoints": str(folder), "savepoint_format": "native"}
    with pytest.raises(TaskEnded, match="would lose timers of this job, which keeps them on the heap"):
        run_operator(TakeSavepointOperator(task_id="take", taking="stop", **arguments), "native")
    assert cluster.job(job_id).runs
    assert not folder.exists()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("taking", "pause"), ("savepoint_format", "CANONICAL"), ("savepoints", "savepoints")),
        *(("flink", None), ("job", None), ("job", "")),  # None: the output of a task that did not run
    ],
)
def test_wrong_argument_of_a_savepoint_is_refused(argument: str, value: Any) -> None:
    arguments = {"flink": "http://127.0.0.1:9", "job": "counts", "savepoints": "/savepoints", argument: value}
    with pytest.raises(TaskEnded, match=f"the argument '{argument}' has a wrong value"):
        run_operator(TakeSavepointOperator(task_id="take", **arguments), "wrong")


def test_checkpoint_instead_of_a_savepoint_is_refused() -> None:
    place = {"flink": "http://127.0.0.1:9", "job": "counts", "savepoints": "/savepoints"}
    with pytest.raises(TaskEnded, match="use TakeCheckpointOperator"):
        run_operator(TakeSavepointOperator(task_id="take", taking="checkpoint", **place), "wrong")


@pytest.mark.parametrize(
    ("operator", "argument"),
    [
        (TakeCheckpointOperator(task_id="take", flink=None, job="counts"), "flink"),
        (CheckpointSensor(task_id="wait", flink="http://127.0.0.1:9", job=None), "job"),
        (DiscardOperator(task_id="discard", target=None), "target"),
        (DiscardOperator(task_id="discard", target="rescaled"), "target"),
    ],
    ids=["checkpoint", "sensor", "discard", "discard of a relative path"],
)
def test_wrong_argument_is_refused(operator: Any, argument: str) -> None:
    with pytest.raises(TaskEnded, match=f"the argument '{argument}' has a wrong value"):
        run_operator(operator, "wrong")


def test_refused_address_does_not_show_its_password() -> None:
    operator = TakeCheckpointOperator(task_id="take", flink="http://ada:secret@flink:8081", job="counts")
    with pytest.raises(TaskEnded, match="put login and password into an Airflow connection") as caught:
        run_operator(operator, "wrong")
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_checkpoint_is_taken_once_by_a_task(cluster: SessionCluster) -> None:
    job_id = with_checkpoints(cluster, "1d")
    place = {"flink": cluster.address, "job": "counts"}
    taken = run_operator(TakeCheckpointOperator(task_id="take", **place), "checkpoint")
    assert taken["job"] == job_id
    assert taken["checkpoint"].endswith(f"chk-{taken['id']}")
    assert (Path(taken["checkpoint"]) / "_metadata").is_file()
    assert run_operator(TakeCheckpointOperator(task_id="take", **place), "checkpoint") == taken
    full = run_operator(TakeCheckpointOperator(task_id="full", full=True, **place), "checkpoint")
    assert full["id"] == taken["id"] + 1
    with pytest.raises(TaskEnded, match="there is no such job"):
        run_operator(TakeCheckpointOperator(task_id="take", flink=cluster.address, job="nobody"), "checkpoint")


@pytest.mark.slow
def test_trigger_fires_for_each_new_checkpoint_but_not_for_an_old_one(cluster: SessionCluster) -> None:
    job_id = with_checkpoints(cluster, "1d")
    place = {"flink": cluster.address, "job": "counts"}

    async def fired() -> list[Any]:
        name, arguments = CheckpointTrigger(**place, period=0.2).serialize()
        assert name == "rescale.airflow.public.checkpoint_trigger.CheckpointTrigger"
        events: list[Any] = []
        new_checkpoints = CheckpointTrigger(**arguments).run()
        for number in range(2):
            waiting = asyncio.ensure_future(anext(new_checkpoints))
            await asyncio.sleep(2)
            assert not waiting.done(), "the trigger fired without a new checkpoint"
            with cluster.open() as flink:
                flink.trigger_checkpoint(job_id, str(number + 2) * 32)
            events.append((await asyncio.wait_for(waiting, 300)).payload)
        await new_checkpoints.aclose()
        return events

    first, second = asyncio.run(fired())
    assert second["id"] == first["id"] + 1
    assert first["job"] == job_id
    assert (Path(second["checkpoint"]) / "_metadata").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("deferrable", [True, False])
def test_sensor_waits_for_the_next_checkpoint(cluster: SessionCluster, deferrable: bool) -> None:
    with_checkpoints(cluster, "1s")
    sensor = CheckpointSensor(
        task_id="wait", flink=cluster.address, job="counts", deferrable=deferrable, poke_interval=0.3
    )
    first = run_operator(sensor, "sensor")
    second = run_operator(sensor, "sensor")
    assert second["id"] > first["id"]
    assert second["checkpoint"].endswith(f"chk-{second['id']}")


def test_sensor_in_reschedule_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="deferrable"):
        CheckpointSensor(task_id="wait", flink="http://127.0.0.1:9", job="counts", mode="reschedule")


def test_deferred_sensor_starts_from_the_checkpoint_it_saw(cluster: SessionCluster) -> None:
    with_checkpoints(cluster, "1d")
    sensor = CheckpointSensor(task_id="wait", flink=cluster.address, job="counts", deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({"ti": None})
    assert "/chk-" in deferred.value.trigger.after


@pytest.mark.slow
def test_example_scales_out_a_busy_job(cluster: SessionCluster) -> None:
    old = cluster.run(2)
    conf = {
        "flink": cluster.address,
        "job": "counts",
        "jar": "counts.jar",
        "entry_class": "Counts",
        "savepoints": str(cluster.folder / "savepoints"),
        "target": str(cluster.folder / "rescaled"),
    }
    with dag_runner() as dags:
        idle = dags.run(EXAMPLES / "scale_out.py", "example_scale_out", busy_ms=1001, **conf)
        assert set(idle.states.values()) == {"success", "skipped"}, idle.log
        assert cluster.alive() == {old}
        busy = dags.run(EXAMPLES / "scale_out.py", "example_scale_out", busy_ms=0, **conf)
    assert busy.state == "success", busy.log
    assert busy.states["start_again"] == "skipped"
    (new,) = cluster.alive()
    assert (busy.outputs["start"]["job"], busy.outputs["start"]["parallelism"]) == (new, 4)
    assert new != old

"""Steps as processes of the worker, on the Spark that the platform's settings choose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.settings import SETTINGS_VARIABLE, settings
from rescale.airflow.steps.step_task import step_in_process, step_task
from rescale.process import ResultDocument
from rescale.runstate.documents import store_plan
from rescale.runstate.places import places_of
from rescale.runstate.publication import publish
from rescale.runstate.step import STEPS_OF_A_RUN, Step
from rescale.text.errors import RequestError
from support.pipeline import claimed_plan, plan_rescale
from support.resuming import assert_right
from support.snapshots import directory
from support.standalone_spark import standalone_spark


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the path of the settings file; a process reads it once."""
    settings.cache_clear()
    file = tmp_path / "settings.yaml"
    monkeypatch.setenv(SETTINGS_VARIABLE, str(file))
    yield file
    settings.cache_clear()


def steps(monkeypatch: pytest.MonkeyPatch, target: Path) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment that a step is started with."""
    started: list[Any] = []

    def run_step(_: Step, __: str, arguments: list[str], *___: Any, environment: dict[str, str]) -> ResultDocument:
        started.extend((arguments, environment))
        return ResultDocument("", b"{}")

    monkeypatch.setattr("rescale.process.run_step", run_step)
    plan = plan_rescale(directory("2-source"), str(target), ["3"])
    store_plan(plan)
    run = step_in_process(Step.VALIDATE, lambda *_: {}, lambda _: ["--proof", "files"])
    run({"published": False, "plan": places_of(plan).plan}, {"require_approval": False})
    arguments, environment = started
    return arguments, environment


def test_master_of_the_settings_is_passed_to_a_step(
    platform: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.write_text("spark: {connection: cluster}")
    extra = {"queue": "night"}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    arguments, environment = steps(monkeypatch, tmp_path / "target")
    assert arguments[2:] == ["--master", "yarn", "--proof", "files"]
    assert environment["PYSPARK_SUBMIT_ARGS"] == "--conf spark.yarn.queue=night pyspark-shell"
    assert [name for name in environment if name.startswith("AIRFLOW")] == []


def test_step_uses_the_cores_of_its_worker_by_default(
    platform: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.touch()
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    arguments, environment = steps(monkeypatch, tmp_path / "target")
    assert arguments[2:4] == ["--master", "local[*]"]
    assert "PYSPARK_SUBMIT_ARGS" not in environment


def test_spark_in_the_settings_is_refused_if_steps_are_pods(platform: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.write_text("spark: {master: yarn}")
    monkeypatch.setenv(DRIVER_POD_VARIABLE, "/driver.yaml")
    with pytest.raises(RequestError, match=DRIVER_POD_VARIABLE):
        step_task(Step.VALIDATE, "validate", "Validate", "doc", Mock())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_executors_of_a_standalone_cluster_move_all_keyed_state(
    platform: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    plan = claimed_plan(directory("2-clicks"), str(target), max_parallelism=["1000"])
    planned = {"published": False, "plan": places_of(plan).plan}
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    finished_tasks = 0
    with standalone_spark(tmp_path) as cluster:
        platform.write_text("spark: {connection: cluster}")
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", cluster.url)
        for step in STEPS_OF_A_RUN:
            step_in_process(step, lambda *_: {}, lambda _: [])(planned, {"require_approval": False})
            before, finished_tasks = finished_tasks, cluster.tasks()
            assert (finished_tasks > before) == (step is not Step.REDISTRIBUTE), step  # a little state needs no Spark
    publish(plan)
    assert_right(str(target), directory("2-clicks"))

"""Runs an operator as Airflow does: in a worker and, while deferred, in a triggerer from its serialized trigger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import BaseOperator


class TaskState(dict[str, Any]):
    """Store for the state of a task and of its run, and for XComs. Like Airflow's store, it refuses None."""

    def set(self, key: str, value: Any) -> None:
        assert value is not None
        self[key] = value


def shared_by_the_run(state: TaskState) -> AbstractContextManager[object]:
    """Let every run use `state` as the state of the run, until the block ends."""
    return patch("rescale.airflow.flink.job_record.run_state", lambda _: state)


def run_operator(operator: BaseOperator, run_id: str, state: TaskState | None = None) -> Any:
    """Run the operator through all its deferrals and return its result; `run_id` is that of its DAG run."""
    state = TaskState() if state is None else state
    pulled: Callable[..., Any] = lambda key="return_value", **_: state.get(key)  # noqa: E731
    instance = SimpleNamespace(
        dag_id="a-dag", run_id=run_id, task_id=operator.task_id, xcom_push=state.set, xcom_pull=pulled
    )
    instance.get_task_states = lambda **_: {run_id: {}}
    run = SimpleNamespace(dag_id="a-dag", run_id=run_id)
    params = {"connection": None, "while_it_runs": False}
    context: Any = {"ti": instance, "dag_run": run, "params": params, "task_state_store": state}
    method, arguments = "execute", {}
    with (
        patch("rescale.airflow.flink.operators._PERIOD_SECONDS", 0.2),
        patch("rescale.airflow.steps.rescale_task.get_current_context", lambda: context),
        shared_by_the_run(state),
    ):
        while True:
            try:
                return getattr(operator, method)(context, **arguments)
            except TaskDeferred as deferred:
                event = asyncio.run(_fired(*deferred.trigger.serialize()))
                method, arguments = deferred.method_name, {"event": event}


async def _fired(name: str, arguments: dict[str, Any]) -> Any:
    module, _, kind = name.rpartition(".")
    trigger = getattr(import_module(module), kind)(**json.loads(json.dumps(arguments)))
    async for event in trigger.run():
        return event.payload
    raise AssertionError("the trigger ended without an event")

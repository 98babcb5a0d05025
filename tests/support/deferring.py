"""An operator as Airflow runs it: in a worker and, while deferred, in a triggerer that has its trigger as data."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferred


def run_operator(operator: BaseOperator, run_id: str) -> Any:
    """What the task returns; `run_id` is that of its DAG run."""
    context: Any = {"ti": SimpleNamespace(dag_id="a-dag", run_id=run_id)}
    method, arguments = "execute", {}
    with patch("rescale.orchestration.flink.operators._PERIOD_SECONDS", 0.2):
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

"""Airflow cluster policies for tests: the id of a run makes one of its tasks fail, wait or linger.

Airflow imports this module as `airflow_local_settings`. In a run `fails-T-…`, the task T fails: after its work if it
takes a savepoint or hands the job over, else before its work. In a run `waits-T-…`, the first try of T waits before it
begins. In both kinds of runs, steps run in the worker's process, without Spark. In a run `lingers-T-…`, the first try
of T ends a while after its work is done; in a run `lingers-all-…`, the first try of every task does.

Tasks of `rescale_savepoint` are retried sooner than in production. Other tasks keep the pauses between their tries, so
that tests can observe these pauses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import BaseOperator, Context

from rescale.process import ResultDocument

_PAUSE_SECONDS = 900
"""How long a task waits or lingers; a test sees and ends it before that."""

_TASKS_WITH_FLINK = ("take_savepoint", "hand_over")


def task_policy(task: BaseOperator) -> None:
    if task.dag_id == "rescale_savepoint":
        task.retry_delay = timedelta(seconds=2)
    task._pre_execute_hook = _before
    task._post_execute_hook = _after


def _before(context: Context) -> None:
    task_id, run_id = context["ti"].task_id, context["ti"].run_id
    if run_id.startswith(f"waits-{task_id}-") and context["ti"].try_number == 1:
        time.sleep(_PAUSE_SECONDS)
    if not run_id.startswith(("fails-", "waits-")):
        return
    if task_id not in _TASKS_WITH_FLINK:
        _fail_if_asked(context)
    if task_id in ("reshuffle_keyed_state", "redistribute_operator_state", "validate"):
        patch("rescale.process.run_step", _run_step).start()


def _after(context: Context, _: Any) -> None:
    _fail_if_asked(context)
    task = context["ti"]
    lingers = task.run_id.startswith(("lingers-all-", f"lingers-{task.task_id}-"))
    if lingers and task.try_number == 1:
        time.sleep(_PAUSE_SECONDS)


def _fail_if_asked(context: Context) -> None:
    if context["ti"].run_id.startswith(f"fails-{context['ti'].task_id}-"):
        raise AirflowFailException("this was asked for")


def _run_step(step: Any, _: str, arguments: Sequence[str], *__: Any, **___: Any) -> ResultDocument:
    from rescale.execution.tasks.in_process import InProcessTasks
    from support.warm import step_without_spark

    return step_without_spark(step, arguments, InProcessTasks(1))

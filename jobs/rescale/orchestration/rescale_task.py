"""What all tasks of ours have in common: the access that the form names, and how they end and are tried again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import task

from rescale.orchestration.access import storage_access
from rescale.orchestration.attempts import ATTEMPTS, ended_by_our_errors

Summary = dict[str, Any]
"""What goes from task to task, through Airflow's database: at most 8 KiB."""


def rescale_task(function: Callable[..., Summary], task_id: str, display_name: str, **arguments: Any) -> Any:
    """A task that has the access which the form names, and that our errors end with their sentence."""

    @functools.wraps(function)
    def with_access(*inputs: Any, params: Mapping[str, Any], **more: Any) -> Summary:
        with ended_by_our_errors(), storage_access(params["connection"]):
            return function(*inputs, params=params, **more)

    return task(task_id=task_id, task_display_name=display_name, **ATTEMPTS, **arguments)(with_access)

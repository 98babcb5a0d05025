"""State that all tries of a task, all tasks of a run or all runs of a window share.

The state of a task or window is in Airflow's state stores; before Airflow 3.3, it is in Airflow's variables. The state
of a run is always in variables, because no task can read another task's store. Airflow removes a task's store with its
run. Variables stay until somebody deletes them.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple, Protocol

from airflow.sdk import Variable

_HASH_DIGITS = 32


class StateStore(Protocol):
    """Store of JSON values by key."""

    def get(self, key: str) -> Any:
        """Return the value of a key, or None."""

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key."""


class VariableStore(NamedTuple):
    """State store in Airflow variables; `owner` describes the task, run or window."""

    owner: str

    def get(self, key: str) -> Any:
        return Variable.get(self._variable_name(key), default=None, deserialize_json=True)

    def set(self, key: str, value: Any) -> None:
        Variable.set(self._variable_name(key), value, description=f"{key} of {self.owner}", serialize_json=True)

    def _variable_name(self, key: str) -> str:
        """Return the variable's name, with a hash of the owner, whose name may be too long for a variable."""
        return f"rescale_{hashlib.sha256(self.owner.encode()).hexdigest()[:_HASH_DIGITS]}_{key}"


def task_state(store: StateStore | None, ti: Any) -> StateStore:
    """Return the state that all tries of a task instance share.

    `store` is Airflow's store of the task; None before Airflow 3.3.
    """
    if store is not None:
        return store
    return VariableStore(f"task {ti.task_id}, run {ti.run_id}, DAG {ti.dag_id}, map index {ti.map_index}")


def run_state(run_name: str) -> StateStore:
    """Return the state that all tasks of the run with this name share."""
    return VariableStore(f"run {run_name}")


def window_state(store: StateStore | None, dag_id: str) -> StateStore:
    """Return the state that all runs of a window share.

    `store` is Airflow's store of the window's asset; None before Airflow 3.3.
    """
    return VariableStore(f"window {dag_id}") if store is None else store

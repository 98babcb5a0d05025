"""State of tasks before Airflow had state stores: it is kept in variables, separately for each owner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Variable

from rescale.airflow.state_stores import task_state, window_state

NAME_LENGTH = 250
"""Length of the name of a variable in Airflow's database."""


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Airflow's variables, outside of a task."""
    stored: dict[str, Any] = {}

    def get(name: str, default: Any, *, deserialize_json: bool) -> Any:
        assert deserialize_json
        return stored.get(name, default)

    def put(name: str, value: Any, *, description: str, serialize_json: bool) -> None:
        assert description
        assert serialize_json
        stored[name] = value

    monkeypatch.setattr(Variable, "get", get)
    monkeypatch.setattr(Variable, "set", put)
    return stored


def instance(task_id: str = "take", run_id: str = "a-run", map_index: int = -1) -> Any:
    return SimpleNamespace(dag_id="a-dag", run_id=run_id, task_id=task_id, map_index=map_index)


def test_airflows_own_store_is_used_where_there_is_one(variables: dict[str, Any]) -> None:
    own: Any = object()
    assert task_state(own, instance()) is own
    assert window_state(own, "rescale_clicks") is own
    assert not variables


def test_all_tries_of_a_task_share_its_state_and_no_other_task_does(variables: dict[str, Any]) -> None:
    state = task_state(None, instance())
    assert state.get("cancels") is None
    state.set("cancels", {"job": "1a2b"})
    assert task_state(None, instance()).get("cancels") == {"job": "1a2b"}
    for other in (instance("stop"), instance(run_id="another"), instance(map_index=3)):
        assert task_state(None, other).get("cancels") is None
    assert window_state(None, "a-dag").get("cancels") is None
    assert len(variables) == 1


def test_names_of_runs_may_be_long(variables: dict[str, Any]) -> None:
    task_state(None, instance(run_id="r" * NAME_LENGTH)).set("cancels_after", 3)
    assert all(len(name) <= NAME_LENGTH for name in variables)


def test_runs_of_a_window_share_its_state(variables: dict[str, Any]) -> None:
    window_state(None, "rescale_clicks").set("last", {"source": "/save"})
    assert window_state(None, "rescale_clicks").get("last") == {"source": "/save"}
    assert window_state(None, "rescale_other").get("last") is None
    assert len(variables) == 1

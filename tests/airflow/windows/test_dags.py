"""Graph of a window's DAG: a run with nothing to do has nothing to remember."""

from __future__ import annotations

from typing import Any

import pytest

from rescale.airflow.windows.dags import window_dag
from rescale.airflow.windows.window import read_entry
from rescale.airflow.windows.window_tasks import CLOSE_TASK

HOURS = {"schedule": "0 6 * * *", "timezone": "Europe/Berlin", "closes": "07:30", "parallelism": 8}
SAVEPOINT_FIELDS = {"source": "/savepoints", "target": "/rescaled/{window}-{date}"}
JOB_FIELDS = {
    "flink": "session",
    "job": "clicks",
    "savepoints": "/savepoints",
    "target": "/rescaled/{window}-{date}-{time}",
    "hand_over": "jar",
    "jar": "counts.jar",
    "entry_class": "Counts",
    "taking": "stop",
}


@pytest.mark.parametrize(
    ("places", "published"),
    [(SAVEPOINT_FIELDS, {"publish"}), (JOB_FIELDS, {"hand_over", "follow_and_cut_over"})],
    ids=["savepoints", "job"],
)
def test_window_remembers_a_result_only_after_the_task_that_hands_it_over(
    places: dict[str, Any], published: set[str]
) -> None:
    """The first task also succeeds in a run with nothing to do, so the closing task must not follow it directly."""
    window, errors = read_entry("clicks", {**HOURS, **places})
    assert window is not None, errors
    assert window_dag(window).get_task(CLOSE_TASK).upstream_task_ids == published


def test_name_of_a_window_fits_into_the_id_of_a_dag() -> None:
    """A DAG that cannot be created would take the DAGs of all other windows out of service."""
    fields = {**HOURS, **SAVEPOINT_FIELDS}
    window, errors = read_entry("w" * 242, fields)
    assert window is not None, errors
    assert len(window_dag(window).dag_id) == 250
    window, (error,) = read_entry("w" * 243, fields)
    assert window is None
    assert "at most 242" in str(error.expected)

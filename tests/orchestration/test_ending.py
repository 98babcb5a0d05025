"""How a run ended, where its connection is not there (any more)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from rescale.orchestration import ending
from rescale.orchestration.ending import end_task
from rescale.orchestration.job.job_tasks import job_end_task
from rescale.orchestration.steps.attempts import TaskEnded
from rescale.orchestration.steps.earlier_tasks import LOOK, PLAN
from rescale.orchestration.steps.rescale_task import NOTHING_TO_DO
from support.filled_forms import PLACES, filled

REMARK = "the job was not touched"


@pytest.mark.parametrize(
    ("planned", "sentence"),
    [
        (None, "nothing was published: the run ended before there was a plan"),
        ({"plan": "/rescaled.rescale/plan.json", "target": "/rescaled"}, "there is no connection 'nobody'"),
    ],
)
def test_what_an_earlier_task_told_of_its_connection_is_not_told_again(
    planned: dict[str, Any] | None, sentence: str
) -> None:
    """Nor does it stand before what is to be said of the job."""
    told = {(PLAN, "return_value"): planned}
    instance = SimpleNamespace(
        dag_id="a-dag", run_id="a-run", xcom_pull=lambda task_ids, key="return_value": told.get((task_ids, key))
    )
    with DAG("a-dag", schedule=None) as dag:
        end_task(then=[], remark=lambda _: REMARK)
    end: Any = dag.get_task("end")
    with pytest.raises(TaskEnded) as ended:
        end.python_callable(params=filled(**PLACES, parallelism=3, connection="nobody"), ti=instance)
    assert ended.value.error.what == f"{sentence}; {REMARK}"


LOOKED = {"before": {"name": "clicks", "job_id": "1" * 32, "taking": "stop"}}


@pytest.mark.parametrize(
    ("failed", "sentence"),
    [
        ("go_back", "may not run, for going back failed"),
        ("inspect", "may not run, for going back failed"),  # what `plan` has told is of an earlier pass
    ],
)
def test_a_run_of_which_a_task_failed_had_something_to_do(failed: str, sentence: str) -> None:
    """Or its job does not run, and it would be green."""
    told = {(LOOK, "return_value"): LOOKED, (PLAN, NOTHING_TO_DO): "nothing to do"}
    instance = SimpleNamespace(
        dag_id="a-dag",
        run_id="a-run",
        xcom_pull=lambda task_ids, key="return_value": told.get((task_ids, key)),
        get_task_states=lambda **_: {"a-run": {"end": "running", "plan": "skipped", failed: "failed"}},
    )
    with DAG("a-dag", schedule=None) as dag:
        job_end_task([LOOK])
    end: Any = dag.get_task("end")
    with pytest.raises(TaskEnded, match=sentence):
        end.python_callable(params=filled(**PLACES, parallelism=3), ti=instance)


def test_a_run_with_nothing_to_do_that_went_back_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "skip_task", Mock(side_effect=AirflowSkipException))
    told = {(LOOK, "return_value"): LOOKED, (PLAN, NOTHING_TO_DO): "nothing to do"}
    instance = SimpleNamespace(
        dag_id="a-dag",
        run_id="a-run",
        xcom_pull=lambda task_ids, key="return_value": told.get((task_ids, key)),
        get_task_states=lambda **_: {"a-run": {"end": "running", "plan": "skipped", "go_back": "success"}},
    )
    with DAG("a-dag", schedule=None) as dag:
        job_end_task([LOOK])
    end: Any = dag.get_task("end")
    with pytest.raises(AirflowSkipException):
        end.python_callable(params=filled(**PLACES, parallelism=3), ti=instance)

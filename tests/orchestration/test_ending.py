"""How a run ended, where its connection is not there (any more)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from rescale.orchestration.ending import end_task
from rescale.orchestration.steps.attempts import TaskEnded
from rescale.orchestration.steps.earlier_tasks import PLAN
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

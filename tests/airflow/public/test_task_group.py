"""A rescale as a task group: several in one DAG, with values of other tasks, and tasks after them."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task_group

from rescale.airflow import RescaleOperator, rescale_task_group
from rescale.airflow.forms.form import rescale_form
from support.dag_runner import DagRunner
from support.snapshots import directory

DAGS = Path(__file__).parent / "dags" / "groups.py"

FOR_AN_APPROVAL = {"require_approval", "approval_minutes", "drops", "state_drops", "old_rows", "restarts"}
"""Fields that the operator lacks, because its plan cannot be approved."""


def test_every_field_of_the_form_is_a_documented_argument() -> None:
    fields = rescale_form().keys()
    arguments = signature(rescale_task_group).parameters.keys() - {"group_id", "tooltip"}
    assert arguments == fields
    assert {name for name in fields if f":param {name}:" not in str(rescale_task_group.__doc__)} == set()
    assert {*RescaleOperator.template_fields} == fields - FOR_AN_APPROVAL
    undocumented = [
        name for name in RescaleOperator.template_fields if f":param {name}:" not in str(RescaleOperator.__doc__)
    ]
    assert undocumented == []


def test_group_in_a_group_that_is_expanded_is_refused_when_the_dag_is_parsed() -> None:
    @task_group
    def each(source: str) -> None:
        rescale_task_group("rescale", source=source, target="/rescaled", parallelism=2)

    with DAG("mapped", schedule=None), pytest.raises(ValueError, match="expand RescaleOperator instead"):
        each.expand(source=["/a", "/b"])
    with DAG("plain", schedule=None) as dag:
        each("/a")
    assert "each.rescale.plan" in dag.task_ids


@pytest.mark.slow
def test_groups_of_one_dag_have_separate_tasks(dags: DagRunner, tmp_path: Path) -> None:
    run = dags.run(DAGS, "two_groups", source=directory("2-clicks"), folder=str(tmp_path))
    executed = ("inspect", "plan", "reshuffle_keyed_state", "redistribute_operator_state", "validate", "publish", "end")
    for group in ("outer.first", "second"):
        states = {
            task_id: run.states[f"{group}.{task_id}"] for task_id in (*executed, "announce", "approve", "rejected")
        }
        expected = dict.fromkeys((*executed, "announce"), "success") | {"approve": "skipped", "rejected": "skipped"}
        assert states == expected, run.log
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    start = {"snapshot": second, "parallelism": 3, "max_parallelism": None, "refers": False}
    assert run.outputs["after"] == [first, second, start]
    assert [(event["source"], event["uri"]) for event in run.events[-2:]] == [
        (directory("2-clicks"), first),
        (first, second),
    ]
    assert run.state == "success"


def test_group_without_work_skips_later_tasks_and_a_failed_one_fails_them(dags: DagRunner, tmp_path: Path) -> None:
    run = dags.run(DAGS, "groups_that_end_early", source=directory("2-clicks"), folder=str(tmp_path))

    def ends(group: str) -> tuple[Any, ...]:
        return tuple(
            run.states[task] for task in (f"{group}.inspect", f"{group}.plan", f"{group}.end", f"after_{group}")
        )

    assert ends("not_chosen") == ("skipped", "skipped", "skipped", "skipped"), run.log
    assert ends("nothing_to_do") == ("success", "skipped", "skipped", "skipped"), run.log
    assert ends("wrong") == ("failed", "upstream_failed", "failed", "upstream_failed"), run.log
    assert "the argument 'parallelism' has a wrong value" in run.log
    assert "failed: wrong.inspect" in run.log, "failed tasks of other groups are listed"
    assert run.states["nothing"] == "skipped"
    assert run.outputs["discard"] == {"target": str(tmp_path / "free"), "removed": 0, "left": 0}
    assert run.state == "failed"
    assert [*tmp_path.iterdir()] == []

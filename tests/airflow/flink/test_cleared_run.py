"""A run whose tasks are all cleared goes on with the job that it has stopped. If a job runs, the run begins anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk.definitions.param import ParamsDict

from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.forms.job_form import job_form
from rescale.airflow.job import job_tasks
from rescale.airflow.job.job_operators import TakeSavepoint
from rescale.airflow.job.job_tasks import look
from rescale.airflow.job.prepare_task import _prepare
from support.deferring import TaskState, run_operator, shared_by_the_run
from support.pipeline import execute_without_spark, plan_rescale
from support.session_cluster import SessionCluster, wait_until

RUN = "cleared"


class Story:
    """A run that stops a job `counts`, and starts it with 3 subtasks; its tasks share a `state`."""

    def __init__(self, cluster: SessionCluster, target: Path) -> None:
        self.state, self.target = TaskState(), str(target)
        params = ParamsDict(job_form())
        places = {"savepoints": str(cluster.folder / "savepoints"), "target": self.target}
        start = {"taking": "stop", "hand_over": "jar", "jar": cluster.jar, "entry_class": "Counts"}
        params.update({"flink": cluster.address, "job": "counts", **places, **start, "parallelism": "3"})
        self.form = dict(params.validate())
        self.run = SimpleNamespace(dag_id="a-dag", run_id=RUN)

    def look(self) -> Any:
        with shared_by_the_run(self.state):
            return look.function(None, params=self.form, dag=SimpleNamespace(params=self.form), ti=self.run)

    def prepare(self, looked: Any) -> Any:
        at_a_checkpoint = {**looked["before"], "taking": "checkpoint"}
        with shared_by_the_run(self.state):
            return _prepare(None, {"before": at_a_checkpoint}, self.form, self.run)

    def take(self, looked: Any) -> Any:
        return run_operator(TakeSavepoint(task_id="take", old_job_document=looked["before"]), RUN, self.state)

    def hand_over(self, looked: Any, start: Any) -> Any:
        task = HandOverJob(
            task_id="hand_over", start=start, old_job_document=looked["before"], parallelism=looked["parallelism"]
        )
        return run_operator(task, RUN, self.state)


def test_cleared_run_goes_on_with_the_job_that_it_has_stopped(
    cluster: SessionCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.run(2)
    story = Story(cluster, tmp_path / "result")
    first = story.look()
    taken = story.take(first)
    assert cluster.alive() == set()
    second = story.look()
    assert second == first
    assert story.prepare(second) == {"files": 0}, "a job that was stopped makes no checkpoint"
    assert story.take(second) == taken
    plan = plan_rescale(taken["savepoint"], story.target, ["3"])
    execute_without_spark(plan)
    started = story.hand_over(second, plan.start._asdict())
    assert cluster.alive() == {started["job"]}
    wait_until(lambda: cluster.is_counting(started["job"]), "the job to count on")
    monkeypatch.setattr(job_tasks, "skip_task", Mock(side_effect=AirflowSkipException("skipped")))
    with pytest.raises(AirflowSkipException):
        story.look()
    assert story.hand_over(second, plan.start._asdict()) == started
    assert cluster.alive() == {started["job"]}

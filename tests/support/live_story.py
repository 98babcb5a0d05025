"""Run of the DAG task that rescales a job of a session cluster while the job runs, without an Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import msgspec

from rescale.airflow.flink.inspection import inspect_job
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.live.follow_task import _follow
from rescale.airflow.steps.earlier_tasks import FOLLOW_TASK, XComField
from rescale.flink_rest.client import StopMode
from support.deferring import TaskState, shared_by_the_run
from support.filled_forms import filled_of_job
from support.session_cluster import ROCKSDB, SessionCluster, has_checkpoint, native_options, wait_until


class LiveStory:
    """A run with a `target`, the `state` and XComs of its task, and the fields of its form."""

    def __init__(
        self, cluster: SessionCluster, job_id: str, jar: RunJar, target: str, *, parallelism: int, **form: Any
    ) -> None:
        self.cluster, self.job_id, self.target, self.state = cluster, job_id, target, TaskState()
        self.parallelism, self.run_id = parallelism, Path(target).name
        self._given = form
        self.form = filled_of_job(
            flink=cluster.address,
            job=job_id,
            target=target,
            taking=StopMode.CHECKPOINT.value,
            while_it_runs=True,
            parallelism=parallelism,
            jar=jar.jar,
            **form,
        )
        self.before = inspect_job(cluster.address, job_id, StopMode.CHECKPOINT, None, jar)

    def again(self) -> LiveStory:
        """Return a run with the same form for the job that was started again, once it has made a checkpoint."""
        (job_id,) = self.cluster.alive()
        wait_until(lambda: has_checkpoint(self.cluster, job_id), "a checkpoint")
        jar = self.before.hand_over
        assert isinstance(jar, RunJar)
        return LiveStory(self.cluster, job_id, jar, self.target, parallelism=self.parallelism, **self._given)

    def follow(self, closes: datetime | None = None) -> dict[str, Any]:
        """Try the task once, in a window that closes at `closes` if given, and return its summary."""
        instance = SimpleNamespace(
            dag_id="a-dag", run_id=self.run_id, task_id=FOLLOW_TASK, task=None, xcom_push=self.state.set
        )
        instance.get_task_states = lambda **_: {self.run_id: {}}
        instance.xcom_pull = lambda **_: {"closes": closes and closes.isoformat()}
        with shared_by_the_run(self.state):
            return _follow(
                None,
                closes and XComField("open_window", "closes"),
                None,
                {"before": msgspec.to_builtins(self.before), "parallelism": self.parallelism},
                self.form,
                SimpleNamespace(dag_id="a-dag", run_id=self.run_id),
                instance,
                self.state,
                MagicMock(),  # no event yet
                MagicMock(),
            )

    def shapes(self, job_id: str) -> set[tuple[int, int]]:
        return {(vertex.parallelism, vertex.max_parallelism) for vertex in self.cluster.job(job_id).vertices}


def begin(
    cluster: SessionCluster,
    target: Path,
    *arguments: str,
    main: str = "Counts",
    options: Mapping[str, str] | None = None,
    **form: Any,
) -> LiveStory:
    """Start a counting job, and return a run that rescales it while it runs."""
    kept = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    options = {**native_options(cluster, ROCKSDB), **kept, **(options or {})}
    job_id = cluster.run(2, *arguments, main=main, options=options)
    wait_until(lambda: cluster.is_counting(job_id) and has_checkpoint(cluster, job_id), "a checkpoint")
    jar = RunJar(cluster.address, "counts.jar", main, arguments, options)
    return LiveStory(cluster, job_id, jar, str(target), **{"parallelism": 3, "max_parallelism": 256, **form})

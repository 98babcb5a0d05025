"""A JobManager or a TaskManager is lost at any moment of a cut-over: one job runs afterwards, the new or the old.

With high availability, a new JobManager restarts the job from its last checkpoint.

There is one exception. A JobManager forgets which checkpoints of ended jobs were completed, and without high
availability those of all jobs. If it is lost about the cancel, and a newer one lies in the job's directory than Flink
has told, nobody knows which one is the last: then no job is started, and the error names both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from oracle.distribution import LINES
from rescale.airflow.job.job_tasks import GoBackIfNeeded
from rescale.airflow.live import cut_over
from rescale.airflow.steps.retries import TaskEnded
from rescale.text.errors import RescaleError, StoreError
from support.deferring import run_operator
from support.live_story import begin
from support.session_cluster import SessionCluster, session_cluster, wait_until
from support.zookeeper import high_availability

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SOON = {"heartbeat.interval": "1000", "heartbeat.timeout": "10000"}
"""A TaskManager hears nothing from a JobManager that was killed; until this has passed, it waits for it, and keeps its
tasks. Only then it registers with the new JobManager."""

MOMENTS = {
    "before the cancel": "cancel",
    "after the cancel": "final_checkpoint",
    "before the publication": "publish",
    "before the start": "hand_job_over",
    "after the start": "_answer",
}

FORGOTTEN = {False: {"before the cancel", "after the cancel"}, True: {"after the cancel"}}
"""Moments of the loss after which a JobManager may not know the last checkpoint, by whether it is highly available."""


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "high availability"])
def is_available(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=LINES)
def machines(request: pytest.FixtureRequest, is_available: bool) -> Iterator[SessionCluster]:
    version = LINES[request.param]
    with ExitStack() as stack:
        options = stack.enter_context(high_availability(version)) if is_available else {}
        yield stack.enter_context(session_cluster(version, **SOON, **options))


@pytest.fixture
def cluster(machines: SessionCluster) -> Iterator[SessionCluster]:
    """Without a job, before and after the test."""
    yield machines
    machines.clear()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("machine", ["job_manager", "task_manager"])
def test_cut_over_survives_the_loss_of_a_machine(
    cluster: SessionCluster, is_available: bool, tmp_path: Path, machine: str, moment: str
) -> None:
    story = begin(cluster, tmp_path / f"{machine} {moment}".replace(" ", "-"), give_up_after=120)
    lose: Callable[[], None] = getattr(cluster, f"lose_{machine}")
    lost: list[str] = []
    real = getattr(cut_over, MOMENTS[moment])

    def losing(*arguments: Any, **more: Any) -> Any:
        if not lost:
            lost.append(moment)
            lose()
        return real(*arguments, **more)

    new: dict[str, Any] | None = None
    with patch.object(cut_over, MOMENTS[moment], losing):
        for _ in range(3):  # as Airflow tries again
            try:
                new = story.follow()
            except StoreError:
                continue
            except RescaleError:
                pass
            break
    assert lost
    if new is None:
        operator = GoBackIfNeeded(task_id="back", before=msgspec.to_builtins(story.before), taken=None)
        try:
            with patch("rescale.airflow.job.job_tasks._was_handed_over", return_value=False):
                run_operator(operator, story.run_id, story.state)
        except TaskEnded as ended:
            if ended.error.what.startswith("it is uncertain which checkpoint the job completed last"):
                assert machine == "job_manager"
                assert moment in FORGOTTEN[is_available]
                wait_until(lambda: not cluster.alive(), "no job")
                return
    wait_until(lambda: len(cluster.alive()) == 1, "a job")
    (job,) = cluster.alive()
    wait_until(lambda: cluster.counts(job), "the job to count on")
    assert story.shapes(job) == ({(3, 256)} if new is not None else {(2, 128)})
    assert cluster.alive() == {job}

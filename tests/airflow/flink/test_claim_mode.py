"""A job with a changelog can make no checkpoint in NO_CLAIM mode, so a run refuses to start it from a jar."""

from __future__ import annotations

import msgspec
import pytest

from rescale.airflow.flink.inspection import inspect_job
from rescale.airflow.flink.last_checkpoint import take_checkpoint
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.claim_mode import refuse_no_claim
from rescale.airflow.job.job_operators import TakeSavepoint
from rescale.flink.start import Start
from rescale.flink_rest.client import StopMode
from rescale.text.errors import RequestError, StoreError
from support.deferring import run_operator
from support.session_cluster import ROCKSDB, SessionCluster, native_options, wait_until


@pytest.mark.slow
def test_job_with_a_changelog_fails_at_its_first_checkpoint_in_no_claim_mode(cluster: SessionCluster) -> None:
    changelog = {"state.changelog.enabled": "true", "state.changelog.storage": "filesystem"}
    place = {"state.changelog.dstl.dfs.base-path": str(cluster.folder / "changelog")}
    options = native_options(cluster, {**ROCKSDB, **changelog, **place})
    job_id = cluster.run(2, main="Alarms", options=options)
    jar = RunJar(cluster.address, "counts.jar", "Alarms", configuration=options)
    with cluster.open() as flink, pytest.raises(RequestError, match="the job has a changelog"):
        refuse_no_claim(flink, cluster.job(job_id), jar, StopMode.STOP, refers_to_source=False)
    folder = str(cluster.folder / "savepoints")
    before = msgspec.to_builtins(inspect_job(cluster.address, "alarms", StopMode.STOP, folder, jar))
    taken = run_operator(TakeSavepoint(task_id="take", old_job_document=before), "changelog")
    start = Start(taken["savepoint"], 2, None)._asdict()
    started = run_operator(HandOverJob(task_id="hand_over", start=start, old_job_document=before), "changelog")
    with cluster.open() as flink:
        with pytest.raises(StoreError, match="Flink could not take a checkpoint"):
            take_checkpoint(flink, started["job"])
        wait_until(lambda: "NO_CLAIM" in (flink.failure_messages(started["job"]) or ""), "Flink to report why")

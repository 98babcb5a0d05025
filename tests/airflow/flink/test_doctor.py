"""`rescale doctor --flink` asks a real cluster."""

from __future__ import annotations

import pytest

from rescale.doctor.checks import CheckList, CheckOutcome
from rescale.doctor.flink_cluster import check_flink
from support.session_cluster import ROCKSDB, SessionCluster, has_checkpoint, native_options, wait_until

RETAINED = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}


def results(cluster: SessionCluster) -> list[tuple[CheckOutcome, str]]:
    check_flink(checks := CheckList(), cluster.address)
    assert all(check.advice for check in checks.done if check.outcome is not CheckOutcome.OK)
    return [(check.outcome, check.result) for check in checks.done]


@pytest.mark.slow
def test_doctor_checks_release_jobs_and_their_checkpoints(cluster: SessionCluster) -> None:
    (release, _), (jobs, running) = results(cluster)
    assert (release, jobs, running) == (CheckOutcome.OK, CheckOutcome.OK, "0 running jobs")
    with_checkpoints = cluster.run(2, options=native_options(cluster, ROCKSDB | RETAINED))
    wait_until(lambda: has_checkpoint(cluster, with_checkpoints), "a checkpoint")
    _, _, retained, aligned, incremental = results(cluster)
    assert retained == (CheckOutcome.OK, "checkpoints are retained")
    assert aligned == (CheckOutcome.OK, "aligned checkpoints")
    assert "RocksDB" in incremental[1]
    cluster.clear()
    cluster.run(2, options=native_options(cluster, UNALIGNED))
    warned = results(cluster)[2:]
    assert [outcome for outcome, _ in warned] == [CheckOutcome.WARNING] * 3
    assert [result for _, result in warned[:2]] == [
        "checkpoints are deleted when the job is cancelled",
        "unaligned checkpoints",
    ]


def test_doctor_warns_of_a_job_without_checkpoints(cluster: SessionCluster) -> None:
    cluster.run(2)
    assert results(cluster)[2:] == [(CheckOutcome.WARNING, "no periodic checkpoints")]

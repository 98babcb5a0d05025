"""A job whose operators have other uids than when the snapshot was taken: real Flink finds all of their state."""

from __future__ import annotations

from pathlib import Path

from oracle.harness import Flink, Job
from support.pipeline import execute_without_spark, plan_rescale

UIDS = {"states": "states-of-users", "rules": "rules-by-name"}

JOB = Job("everything", parallelism=3, parameters={"seed": 19}, max_parallelism=128)


def test_a_job_with_other_uids_finds_everything(flink: Flink, tmp_path: Path) -> None:
    """Flink refuses to start it where an operator's state is nobody's: none is."""
    source, target = str(flink.snapshot(JOB, tmp_path / "source")), str(tmp_path / "target")
    renames = [f"{old}={new}" for old, new in UIDS.items()]
    execute_without_spark(plan_rescale(source, target, ["2"], renames=renames))
    verdict = flink.restore(target, JOB, JOB.with_(parallelism=2, uids=UIDS), per_subtask=True)
    assert verdict.ok, verdict
    assert verdict.compared["results"] > 0

"""A job that has changed since the snapshot was taken: real Flink finds all state of operators with other uids."""

from __future__ import annotations

from pathlib import Path

from oracle.harness import Flink, Job
from support.pipeline import execute_without_spark, plan_rescale

UIDS = {"states": "states-of-users", "rules": "rules-by-name"}

JOB = Job("everything", parallelism=3, parameters={"seed": 19}, max_parallelism=128)


def test_a_job_with_other_uids_finds_everything(flink: Flink, tmp_path: Path) -> None:
    """And starts it though one operator with state is gone: it refuses a snapshot that has state of nobody's."""
    before = JOB.with_(parameters={**JOB.parameters, "raw_keyed": 1})
    source, target = str(flink.snapshot(before, tmp_path / "source")), str(tmp_path / "target")
    renames = [f"{old}={new}" for old, new in UIDS.items()]
    execute_without_spark(plan_rescale(source, target, ["2"], renames=renames, drops=["raw"]))
    verdict = flink.restore(target, JOB, JOB.with_(parallelism=2, uids=UIDS), per_subtask=True)
    assert verdict.ok, verdict
    assert verdict.compared["results"] > 0

"""Flink accepts the printed command that starts a job from a result, also if operators have different shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.harness import Flink, Job
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow

EVERYTHING = Job("everything", parallelism=4, parameters={"seed": 8})

OPTION = "-Dpipeline.max-parallelism="


@pytest.mark.parametrize(
    ("max_parallelism", "options", "max_option"),
    [
        (128, ["256", "lists=200"], None),
        slow(256, ["lists=200"], None),
        (128, ["256"], "256"),
        slow(128, ["128"], None),
    ],
)
def test_job_without_a_max_parallelism_of_its_own_starts_by_the_printed_command(
    flink: Flink, tmp_path: Path, max_parallelism: int, options: list[str], max_option: str | None
) -> None:
    job = EVERYTHING.with_(max_parallelism=max_parallelism)
    source, target = str(flink.snapshot(job, tmp_path / "source")), str(tmp_path / "target")
    plan = plan_rescale(source, target, max_parallelism=options)
    execute_without_spark(plan)
    option = f" {OPTION}{max_option}" if max_option else ""
    assert plan.start.command == f"flink run -s {target} -p 4{option} <your-job.jar>"
    configuration = {"pipeline.max-parallelism": max_option} if max_option else {}
    started_job = job.with_(max_parallelism=None, configuration=configuration)
    verdict = flink.restore(target, job, started_job, per_subtask=True)
    assert verdict.ok, verdict

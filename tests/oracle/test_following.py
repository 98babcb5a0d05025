"""Following a real job that keeps one checkpoint: base and rounds while it runs, the last round after it has ended.

The job is that of `test_continuing`. Flink deletes a checkpoint as soon as the next one is complete, pinned or not.
Therefore the job waits for the follower before each checkpoint but one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oracle.distribution import LINES
from oracle.harness import Flink
from oracle.test_continuing import CHURN, Case
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.snapshot.reading.discovery import complete_checkpoints
from rescale.snapshot.reading.opening import open_snapshot
from support.diffing import diff
from support.pipeline import execute_without_spark, plan_rescale

RETAIN_1_CHECKPOINT = {"state.checkpoints.num-retained": "1", "execution.checkpointing.num-retained": "1"}

ROUND_COUNT = 17
"""Number of rounds: several times as many as a RocksDB directory has levels. The job takes 20 checkpoints in all."""

CASES = (
    pytest.param(Case("2", 3, 1000), id="2 to 3 of 1000"),
    pytest.param(Case("1.20", 4, 64), id="1.20 to 4 of 64"),
)


def kinds_of_the_job() -> list[str]:
    """Return the job's commands: a checkpoint for the base, then a wave and a checkpoint for each round.

    The third round has two checkpoints. A wave and a checkpoint follow the rounds.
    """
    kinds = ["checkpoint", "gate-0"]
    for round_number in range(1, ROUND_COUNT + 1):
        kinds += ["wave", *(["checkpoint"] if round_number == 3 else []), "checkpoint", f"gate-{round_number}"]
    return [*kinds, "wave", "checkpoint"]


WAVE_COUNT = kinds_of_the_job().count("wave")


@contextmanager
def running_follower(job_directory: Path, target: Path, case: Case) -> Iterator[subprocess.Popen[str]]:
    """Run `rescale follow` in a process, as users do, while the job runs."""
    shape = ["--parallelism", str(case.parallelism), "--max-parallelism", str(case.max_parallelism)]
    arguments = ["follow", str(job_directory), "--target", str(target), *shape, "--output", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rescale", *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for_job_directory(source_folder: Path, ended: threading.Event) -> Path:
    """Return the job's directory as soon as it has a complete checkpoint."""
    while not ended.wait(0.05):
        for job_directory in source_folder.iterdir() if source_folder.exists() else ():
            if job_directory.is_dir() and complete_checkpoints(str(job_directory)):
                return job_directory
    raise AssertionError("the job has ended without a checkpoint")


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("case", CASES)
def test_result_of_a_followed_job_is_that_of_a_full_run(tmp_path: Path, case: Case) -> None:
    source_folder, target = tmp_path / "source", tmp_path / "target"
    ended = threading.Event()
    job_errors: list[BaseException] = []
    with Flink(LINES[case.line], RETAIN_1_CHECKPOINT) as flink:

        def run_the_job() -> None:
            try:
                flink.snapshots(case.job, source_folder, *kinds_of_the_job(), timeout=1200)
            except BaseException as error:
                job_errors.append(error)
            finally:
                ended.set()

        thread = threading.Thread(target=run_the_job)
        thread.start()
        reports = []
        try:
            job_directory = wait_for_job_directory(source_folder, ended)
            with running_follower(job_directory, target, case) as process:
                assert process.stdout is not None
                for round_number in range(ROUND_COUNT + 1):
                    reports.append(json.loads(process.stdout.readline()))
                    while reports[-1]["checkpoint"] < complete_checkpoints(str(job_directory))[-1]:
                        reports.append(json.loads(process.stdout.readline()))
                    (source_folder / f"gate-{round_number}").touch()
        finally:
            for round_number in range(ROUND_COUNT + 1):
                (source_folder / f"gate-{round_number}").touch()
            thread.join()
        assert not job_errors, job_errors
        (last_checkpoint,) = complete_checkpoints(str(job_directory))
        assert last_checkpoint > reports[-1]["checkpoint"], "the last round has nothing to do"
        last_process = subprocess.run(
            [sys.executable, "-m", "rescale", "follow", str(job_directory), "--target", str(target), "--finish"],
            check=False,
        )
        assert last_process.returncode == 0
        kinds = [report["kind"] for report in reports]
        assert kinds[0] == "base"
        assert kinds.count("joined") > 1, kinds
        assert set(kinds[1:]) == {"round", "joined"}, reports
        assert all(report["rows_written"] for report in reports[1:])
        source = str(job_directory / f"chk-{last_checkpoint}")
        validate_published(source, str(target), InProcessTasks(2, None))
        assert diff(open_snapshot(source), open_snapshot(str(target))).equal
        full_target = tmp_path / "full"
        shape = [str(case.parallelism)]
        execute_without_spark(
            plan_rescale(source, str(full_target), shape, max_parallelism=[str(case.max_parallelism)])
        )
        assert diff(open_snapshot(str(target)), open_snapshot(str(full_target))).equal
        names_beside_target = {path.name for path in Path(f"{target}.rescale").iterdir()}
        assert not names_beside_target & {"pins", "rounds", "follower.json"}
        job_after_waves = CHURN.with_(parameters={**CHURN.parameters, "waves": WAVE_COUNT})
        rescaled_job = case.job.with_(parallelism=case.parallelism, max_parallelism=case.max_parallelism)
        verdict = flink.restore(target, job_after_waves, rescaled_job, next_kind="checkpoint")
        assert verdict.ok, verdict

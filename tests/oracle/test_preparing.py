"""Files of a job's checkpoints are copied ahead, a run uses its last checkpoint, and real Flink restores the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.cases import ROCKSDB, everything, graph
from oracle.harness import Flink, Job
from oracle.test_copies import INCREMENTAL, MERGING
from rescale.execution.preparing import prepare_files
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.runstate.places import is_prepared_file
from rescale.runstate.preparation import begin_preparing
from support.pipeline import execute, plan_rescale
from support.slow import gate, slow

IN_FILES = {"state.storage.fs.memory-threshold": "0", "execution.checkpointing.data-inline-threshold": "0"}
"""Options with which even small state is not stored in `_metadata`."""

CASES = (
    pytest.param("2", everything(2), INCREMENTAL, 3, id="2 to 3"),
    gate("1.20", everything(2), INCREMENTAL, 3, id="1.20 to 3"),
    slow("2", everything(4), INCREMENTAL, 2, id="2 to 2"),
    slow("1.20", graph("windows", 3), INCREMENTAL, 4, id="1.20 with windows to 4"),
    slow("2", everything(3), MERGING, 5, id="2 with merged files to 5"),
)


@pytest.mark.parametrize(("line", "plain_job", "configuration", "restored_parallelism"), CASES)
def test_flink_continues_from_a_result_with_prepared_files(
    retaining_flink: Callable[[str], Flink],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    plain_job: Job,
    configuration: dict[str, str],
    restored_parallelism: int,
) -> None:
    """Files of a first checkpoint are copied. The run uses a second checkpoint, which shares some of these files."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    flink = retaining_flink(line)
    job = plain_job.with_(**ROCKSDB, configuration={**configuration, **IN_FILES})
    first, second = flink.snapshots(job, tmp_path / "source", "checkpoint", "checkpoint")
    target = tmp_path / "target"
    plan_ahead = prepare(make_request(str(first), str(target), [str(restored_parallelism)]), copies_ahead=True).plan
    begin_preparing(plan_ahead)
    prepared = prepare_files(plan_ahead, InProcessTasks())
    assert prepared.new_files == prepared.files > 0
    times_before = {path.name: path.stat().st_mtime_ns for path in target.iterdir()}
    execute(plan_rescale(str(second), str(target), [str(restored_parallelism)]))
    times_after = {path.name: path.stat().st_mtime_ns for path in target.iterdir() if is_prepared_file(path.name)}
    assert times_after.items() & times_before.items(), "no file that was copied ahead was used"
    verdict = flink.restore(target, job, job.with_(parallelism=restored_parallelism), next_kind="checkpoint")
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0

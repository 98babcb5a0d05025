"""Real Flink opens results with layers of changes as its own databases: it cuts them, joins them and runs on.

Each result is a base with two layers above it, which delete rows. Flink restores it at a larger parallelism, for which
it cuts a directory, and at a smaller one, for which it copies rows of several directories together or imports their
files. Then Flink takes a canonical savepoint of the restored state.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from oracle.cases import ROCKSDB, graph
from oracle.harness import Flink
from oracle.test_copies import INCREMENTAL
from oracle.test_own_restore import INGEST
from rescale.rocksdb.manifest.version_edit import DELETION
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.databases.table_sizes import open_table
from rescale.snapshot.reading.opening import open_snapshot
from support.pipeline import execute_without_spark, plan_continued, plan_rescale
from support.slow import gate, slow

CHURN = graph("churn", 2).with_(parameters={"keys": 60}, **ROCKSDB)
MAX_PARALLELISM = 1000
KINDS = ("checkpoint", "wave", "checkpoint", "wave", "checkpoint")
COMMANDS_AFTER_RESTORE = ("wave", "checkpoint") * 5
"""Commands to a restored job: more checkpoints than level 0 may have files, so that layers are compacted."""

STYLES = {
    "static": INCREMENTAL,
    "dynamic": {**INCREMENTAL, "state.backend.rocksdb.compaction.level.use-dynamic-size": "true"},
    "universal": {**INCREMENTAL, "state.backend.rocksdb.compaction.style": "UNIVERSAL"},
}
CASES = (
    *(slow("1.20", style) for style in STYLES if style != "universal"),
    gate("1.20", "universal"),
    *(slow("2", style) for style in STYLES),
)


def result_with_layers(checkpoints: list[Path], folder: Path, parallelism: int) -> Path:
    """Make a base of the first checkpoint and a round of each later one; return the last result."""
    shape = ([str(parallelism)], [str(MAX_PARALLELISM)])
    targets = [folder / f"{parallelism}-{number}" for number in range(len(checkpoints))]
    execute_without_spark(plan_rescale(str(checkpoints[0]), str(targets[0]), shape[0], max_parallelism=shape[1]))
    for (base, target), source in zip(pairwise(targets), checkpoints[1:], strict=True):
        execute_without_spark(plan_continued(str(source), str(target), str(base), *shape))
    return targets[-1]


def delete_count_by_level(result: Path) -> dict[int, int]:
    """Return the number of deletes in the SST files of each level."""
    snapshot, delete_counts = with_tables(open_snapshot(str(result))), dict[int, int]()
    databases = [database for operator in snapshot.operators for database in operator.databases]
    for live_table in (table for database in databases for table in database.tables):
        table = open_table(live_table, snapshot.contents)
        kinds = [row.kind for entry in table.index_entries() for row in table.rows(entry.handle)]
        delete_counts[live_table.file.level] = delete_counts.get(live_table.file.level, 0) + kinds.count(DELETION)
    return delete_counts


@pytest.mark.parametrize(("line", "style"), CASES)
def test_flink_cuts_and_joins_directories_with_layers(
    retaining_flink: Callable[[str], Flink], tmp_path: Path, line: str, style: str
) -> None:
    flink, job = retaining_flink(line), CHURN.with_(configuration=STYLES[style])
    checkpoints = flink.snapshots(job, tmp_path / "source", *KINDS)
    job_after_waves = job.with_(parameters={**job.parameters, "waves": KINDS.count("wave")})
    restores = [(2, 3, STYLES[style]), (3, 2, STYLES[style])]
    if line == "2":
        restores.append((3, 2, {**STYLES[style], **INGEST}))
    results = {parallelism: result_with_layers(checkpoints, tmp_path, parallelism) for parallelism in (2, 3)}
    for result in results.values():
        delete_counts = delete_count_by_level(result)
        assert delete_counts.keys() == {6, 5, 4}
        assert delete_counts[6] == 0
        assert delete_counts[5] > 0
        assert delete_counts[4] > 0
    for number, (old_parallelism, new_parallelism, options) in enumerate(restores):
        rescaled_job = job.with_(parallelism=new_parallelism, max_parallelism=MAX_PARALLELISM, configuration=options)
        verdict = flink.restore(results[old_parallelism], job_after_waves, rescaled_job, next_kind="canonical")
        assert verdict.ok, verdict
        continuing_job = rescaled_job.with_(parameters={**job.parameters, "lived": KINDS.count("wave")})
        kinds = (*COMMANDS_AFTER_RESTORE, "canonical")
        savepoint = flink.snapshots(
            continuing_job, tmp_path / f"life-{number}", *kinds, restored=results[old_parallelism]
        )[-1]
        job_after_all_waves = job.with_(
            parameters={**job.parameters, "waves": (*KINDS, *COMMANDS_AFTER_RESTORE).count("wave")}
        )
        verdict = flink.restore(savepoint, job_after_all_waves, rescaled_job)
        assert verdict.ok, verdict

"""Flink's log shows that it restores RocksDB directories at another parallelism as Rescale predicts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.harness import Flink, Job
from rescale.insight.flink_restore import SubtaskRestore, flink_restore
from rescale.insight.insight import with_measured_databases
from rescale.snapshot.reading.opening import open_snapshot
from support.slow import slow

CHURN = Job("churn", 4, {"seed": 3, "keys": 300}, max_parallelism=128, backend="rocksdb")
INGEST = {"state.backend.rocksdb.use-ingest-db-restore-mode": "true"}

_RANGE = r"\[(\d+), (\d+)\]"
_RECOVERY = re.compile(rf"Starting RocksDB incremental recovery in operator .* target key-group range {_RANGE}\. .*")
_BASE = re.compile(rf"Starting opening base RocksDB instance in operator .* target key-group range {_RANGE} from .*")
_DELETE = re.compile(rf"Performing range delete for backend with target key-groups range {_RANGE} .* set \[(.*)\] - .*")
_COPY = re.compile(rf"Starting copy of state handle .* for backend with range {_RANGE} in .*")
_EXPORTED = re.compile(rf"Completed restore export for backend with range {_RANGE} in .* (\d+) exported handles")
_HANDLE = re.compile(r"KeyGroupRange\{startKeyGroup=(\d+), endKeyGroup=(\d+)\}")
_BYTES = re.compile(r"\[(\d+) bytes\]")


def restores_in_log(
    log: str, subtask_by_key_groups: dict[tuple[int, int], int]
) -> dict[tuple[int, int], SubtaskRestore]:
    """Return the restore of each new subtask by its key groups; `subtask_by_key_groups` has the old subtasks."""

    def subtasks_of_handles(line: str) -> tuple[int, ...]:
        return tuple(subtask_by_key_groups[int(first), int(last)] for first, last in _HANDLE.findall(line))

    restore_by_key_groups: dict[tuple[int, int], SubtaskRestore] = {}
    for line in log.splitlines():
        for pattern in (_RECOVERY, _BASE, _DELETE, _COPY):
            if not (match := pattern.search(line)):
                continue
            key_groups = int(match[1]), int(match[2])
            if pattern is _RECOVERY:
                read_bytes = sum(map(int, _BYTES.findall(line)))
                restore_by_key_groups[key_groups] = SubtaskRestore(
                    -1, key_groups, subtasks_of_handles(line), read_bytes, 0
                )
            elif pattern is _BASE:
                (base,) = subtasks_of_handles(line)
                restore_by_key_groups[key_groups] = replace(restore_by_key_groups[key_groups], base=base)
            elif pattern is _DELETE:
                bounds = [int(byte) for byte in re.findall(r"-?\d+", match[3])]
                hidden = tuple((a & 0xFF, (b & 0xFF) - 1) for a, b in zip(bounds[::2], bounds[1::2], strict=True))
                restore_by_key_groups[key_groups] = replace(restore_by_key_groups[key_groups], hidden=hidden)
            else:
                restore_by_key_groups[key_groups] = replace(
                    restore_by_key_groups[key_groups],
                    copied=(*restore_by_key_groups[key_groups].copied, *subtasks_of_handles(line)),
                )
    return restore_by_key_groups


def log_of_restore(flink: Flink, path: Path, source: Job, job: Job) -> str:
    """Return the part of Flink's log in which it restores the savepoint."""
    size_before = flink.log.stat().st_size
    verdict = flink.restore(path, source, job)
    assert verdict.ok, verdict
    with flink.log.open("rb") as log:
        log.seek(size_before)
        return log.read().decode()


@pytest.mark.parametrize(("parallelism", "other_parallelisms"), [slow(4, (8, 6, 2)), (3, (4,))])
def test_flink_downloads_opens_cuts_and_copies_directories_as_predicted(
    flink: Flink, tmp_path: Path, parallelism: int, other_parallelisms: tuple[int, ...]
) -> None:
    job = CHURN.with_(parallelism=parallelism)
    path = flink.snapshot(job, tmp_path, "native")
    (keyed_operator,) = [operator for operator in open_snapshot(str(path)).operators if operator.databases]
    subtask_by_key_groups = {
        (database.key_groups.first, database.key_groups.last): database.subtask for database in keyed_operator.databases
    }
    for other_parallelism in other_parallelisms:
        restore_by_key_groups = restores_in_log(
            log_of_restore(flink, path, job, job.with_(parallelism=other_parallelism)), subtask_by_key_groups
        )
        predicted = flink_restore(keyed_operator, other_parallelism).subtasks
        assert restore_by_key_groups == {
            restore.key_groups: replace(restore, subtask=-1, by_record=0) for restore in predicted
        }
        assert any(restore.copied for restore in predicted) == (other_parallelism != 8)


@pytest.mark.slow
def test_flink_2_ingests_directories_as_predicted_if_configured(flink_2: Flink, tmp_path: Path) -> None:
    """Flink ingests all directories of a fresh savepoint, and after an earlier rescale those without foreign rows."""
    fresh_savepoint = flink_2.snapshot(CHURN, tmp_path / "fresh", "native")
    job_of_6 = CHURN.with_(parallelism=6)
    (clipped_savepoint,) = flink_2.snapshots(job_of_6, tmp_path / "clipped", "native", restored=fresh_savepoint)
    for path, source, parallelism in ((fresh_savepoint, CHURN, 6), (clipped_savepoint, job_of_6, 4)):
        (keyed_operator,) = [o for o in with_measured_databases(open_snapshot(str(path))).operators if o.databases]
        job = CHURN.with_(parallelism=parallelism, configuration=INGEST)
        log = log_of_restore(flink_2, path, source, job)
        predicted = flink_restore(keyed_operator, parallelism).subtasks
        exported_count_by_key_groups = {(int(m[1]), int(m[2])): int(m[3]) for m in _EXPORTED.finditer(log)}
        assert exported_count_by_key_groups == {
            restore.key_groups: len(restore.handles) - len(restore.foreign) for restore in predicted if restore.copied
        }
        assert any(restore.foreign for restore in predicted) == (path == clipped_savepoint)
        read_bytes_by_key_groups = {
            (int(m[1]), int(m[2])): sum(map(int, _BYTES.findall(m[0]))) for m in _RECOVERY.finditer(log)
        }
        assert read_bytes_by_key_groups == {restore.key_groups: restore.read for restore in predicted}

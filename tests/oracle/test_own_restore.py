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


def restores_in_log(log: str, old: dict[tuple[int, int], int]) -> dict[tuple[int, int], SubtaskRestore]:
    """Return the restore of each new subtask by its key groups; `old` has the old subtasks by their key groups."""

    def handles(line: str) -> tuple[int, ...]:
        return tuple(old[int(first), int(last)] for first, last in _HANDLE.findall(line))

    done: dict[tuple[int, int], SubtaskRestore] = {}
    for line in log.splitlines():
        for pattern in (_RECOVERY, _BASE, _DELETE, _COPY):
            if not (match := pattern.search(line)):
                continue
            own = int(match[1]), int(match[2])
            if pattern is _RECOVERY:
                read = sum(map(int, _BYTES.findall(line)))
                done[own] = SubtaskRestore(-1, own, handles(line), read, 0)
            elif pattern is _BASE:
                (base,) = handles(line)
                done[own] = replace(done[own], base=base)
            elif pattern is _DELETE:
                bounds = [int(byte) for byte in re.findall(r"-?\d+", match[3])]
                hidden = tuple((a & 0xFF, (b & 0xFF) - 1) for a, b in zip(bounds[::2], bounds[1::2], strict=True))
                done[own] = replace(done[own], hidden=hidden)
            else:
                done[own] = replace(done[own], copied=(*done[own].copied, *handles(line)))
    return done


def log_of_restore(flink: Flink, path: Path, source: Job, job: Job) -> str:
    """Return the part of Flink's log in which it restores the savepoint."""
    before = flink.log.stat().st_size
    verdict = flink.restore(path, source, job)
    assert verdict.ok, verdict
    with flink.log.open("rb") as log:
        log.seek(before)
        return log.read().decode()


@pytest.mark.parametrize(("parallelism", "others"), [slow(4, (8, 6, 2)), (3, (4,))])
def test_flink_downloads_opens_cuts_and_copies_directories_as_predicted(
    flink: Flink, tmp_path: Path, parallelism: int, others: tuple[int, ...]
) -> None:
    job = CHURN.with_(parallelism=parallelism)
    path = flink.snapshot(job, tmp_path, "native")
    (keyed_operator,) = [operator for operator in open_snapshot(str(path)).operators if operator.databases]
    old = {
        (database.key_groups.first, database.key_groups.last): database.subtask for database in keyed_operator.databases
    }
    for other in others:
        done = restores_in_log(log_of_restore(flink, path, job, job.with_(parallelism=other)), old)
        foretold = flink_restore(keyed_operator, other).subtasks
        assert done == {restore.key_groups: replace(restore, subtask=-1, by_record=0) for restore in foretold}
        assert any(restore.copied for restore in foretold) == (other != 8)


@pytest.mark.slow
def test_flink_2_ingests_directories_as_predicted_if_configured(flink_2: Flink, tmp_path: Path) -> None:
    """Flink ingests all directories of a fresh savepoint, and after an earlier rescale those without foreign rows."""
    fresh = flink_2.snapshot(CHURN, tmp_path / "fresh", "native")
    six = CHURN.with_(parallelism=6)
    (clipped,) = flink_2.snapshots(six, tmp_path / "clipped", "native", restored=fresh)
    for path, source, parallelism in ((fresh, CHURN, 6), (clipped, six, 4)):
        (keyed_operator,) = [o for o in with_measured_databases(open_snapshot(str(path))).operators if o.databases]
        job = CHURN.with_(parallelism=parallelism, configuration=INGEST)
        log = log_of_restore(flink_2, path, source, job)
        foretold = flink_restore(keyed_operator, parallelism).subtasks
        exported = {(int(m[1]), int(m[2])): int(m[3]) for m in _EXPORTED.finditer(log)}
        assert exported == {
            restore.key_groups: len(restore.handles) - len(restore.foreign) for restore in foretold if restore.copied
        }
        assert any(restore.foreign for restore in foretold) == (path == clipped)
        reads = {(int(m[1]), int(m[2])): sum(map(int, _BYTES.findall(m[0]))) for m in _RECOVERY.finditer(log)}
        assert reads == {restore.key_groups: restore.read for restore in foretold}

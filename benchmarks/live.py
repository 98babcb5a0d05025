"""Rounds of `rescale follow`: their costs by the share of changed keys, and the downtime of the job at the end.

    python benchmarks/live.py [--gigabytes 1 8] [--per-cent 0.1 1 10] [--flink 1.20.5 2.3.0]

A job of real Flink keeps its state in RocksDB at parallelism 4 and max parallelism 128. Between its checkpoints it
changes a known number of keys; `rescale follow` takes each checkpoint to parallelism 6 and max parallelism 1000. The
first table has a line for each round: its time (without the start of processes), the time that `rescale diff --by-file`
estimates, and the time of the first full run (the base). Further columns are rows written ÷ rows changed, bytes written
÷ bytes changed, bytes and entries of the files that were read, and the rate of this reading.

The second table has the time from the end of the old job until all tasks of the new one run. Its parts are the command
that makes the last result, including the start of processes, and Flink's restore. Three ways are measured at the end of
the same job: a plain restart from the last checkpoint; `rescale follow --finish` after a last change of 0.1 per cent;
and a native savepoint, `rescale run` and the restore of its result. Taking the savepoint does not count.

The third table has the MB of SST files that one core reads in a second: by the reader that a round uses, which decodes
all entries of each file, and by a bare scan of all rows with RocksDB's own iterators. The reader and the scan take the
last checkpoint, from the page cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

import tests_path  # noqa: F401
from kinds import opened_databases, walk_rows
from oracle.harness import Flink, Job
from rescale.insight.file_changes import FileChanges, file_changes
from rescale.rocksdb.engine.changes.entry_batches import entry_batches
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.snapshot.reading.discovery import checkpoint_directory, complete_checkpoints
from rescale.snapshot.reading.opening import open_snapshot
from restores import JVM, KEY_BYTES, MAXIMUM, OTHER_MAXIMUM, OWN_MEMORY, restore_seconds

RESCALE = str(Path(sys.executable).with_name("rescale"))
PARALLELISM, OTHER_PARALLELISM = 4, 6
SHAPE = ("--parallelism", str(OTHER_PARALLELISM), "--max-parallelism", str(OTHER_MAXIMUM))
LAST_PER_CENT = 0.1
VALUE_SIZE = 1000
INCREMENTAL = {"state.backend.incremental": "true", "execution.checkpointing.incremental": "true"}
RETAINED = {"state.checkpoints.num-retained": "50", "execution.checkpointing.num-retained": "50"}
"""Options that retain all checkpoints, because the estimates compare them after the rounds."""

TIMEOUT_SECONDS = 1800


class FollowedJob(NamedTuple):
    """The job's directory with its last checkpoint and a native savepoint, and the rounds made while it ran."""

    checkpoint: Path
    savepoint: Path
    rounds: list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0])
    parser.add_argument("--per-cent", type=float, nargs="+", default=[0.1, 1.0, 10.0], help="keys changed in a round")
    parser.add_argument("--flink", nargs="+", default=["1.20.5", "2.3.0"], help="the releases of Flink")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    rounds: list[Sequence[object]] = []
    downtimes: list[Sequence[object]] = []
    rates: list[Sequence[object]] = []
    for release in arguments.flink:
        with Flink(release, RETAINED, jvm=JVM) as flink:
            for gigabytes in arguments.gigabytes:
                with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
                    keys = int(gigabytes * 1e9 / (VALUE_SIZE + KEY_BYTES))
                    changed = [int(keys * share / 100) for share in (*arguments.per_cent, LAST_PER_CENT)]
                    job = bulk_job(keys, changed)
                    followed = follow(flink, job, Path(folder), len(changed))
                    rows_of_rounds = round_rows(gigabytes, keys, changed, followed)
                    rounds += ((release, *row) for row in rows_of_rounds)
                    rows_of_ways = downtime_rows(gigabytes, changed[-1], flink, job, Path(folder), followed)
                    downtimes += ((release, *row) for row in rows_of_ways)
                    rates.append((release, gigabytes, *reading_rates(followed.checkpoint)))
    names = ("changed", "seconds", "estimate", "÷ base", "rows", "bytes", "read", "entries", "MB/s")
    print(tabulate(rounds, ("Flink", "GB", *names), floatfmt=".2f"))
    print()
    print(
        tabulate(
            downtimes, ("Flink", "GB", "way", "command", "restore", "s", "more than restart", "allowed"), floatfmt=".1f"
        )
    )
    print()
    print(
        tabulate(
            rates,
            ("Flink", "GB", "all entries, MB/s", "bare scan, MB/s", "ratio"),
            floatfmt=("", "", ".0f", ".0f", ".2f"),
        )
    )


def bulk_job(keys: int, changed: Sequence[int]) -> Job:
    key_count_by_wave = {f"changed-{number}": count for number, count in enumerate(changed, 1)}
    return Job(
        "bulk",
        PARALLELISM,
        {"keys": keys, "bytes": VALUE_SIZE, **key_count_by_wave},
        max_parallelism=MAXIMUM,
        backend="rocksdb",
        configuration={**OWN_MEMORY, **INCREMENTAL},
    )


def follow(flink: Flink, job: Job, home: Path, wave_count: int) -> FollowedJob:
    """Run the job beside a follower, which makes the base, and a round for each wave of changes but the last."""
    kinds = ["checkpoint", "details", "gate-0"]
    for number in range(1, wave_count):
        kinds += ["wave", "checkpoint", f"gate-{number}"]
    kinds += ["wave", "native", "checkpoint"]
    paths: list[Path] = []

    def run_the_job() -> None:
        paths.extend(flink.snapshots(job, home / "source", *kinds, timeout=TIMEOUT_SECONDS))

    thread = threading.Thread(target=run_the_job)
    thread.start()
    rounds = []
    with _following(_wait_for_job_directory(home / "source", thread), home / "target") as lines:
        for number in range(wave_count):
            rounds.append(json.loads(next(lines)))
            (home / "source" / f"gate-{number}").touch()
    thread.join()
    return FollowedJob(paths[-1], paths[-2], rounds)


def _wait_for_job_directory(source: Path, thread: threading.Thread) -> Path:
    """Return the job's directory, as soon as it has the first requested checkpoint.

    Flink may have made an earlier checkpoint, without most of the state. `job.json` follows the requested one.
    """
    while thread.is_alive():
        if (source / "job.json").exists():
            return next(job for job in source.iterdir() if job.is_dir() and complete_checkpoints(str(job)))
        thread.join(0.1)
    sys.exit("the job ended without a checkpoint")


@contextmanager
def _following(job: Path, target: Path) -> Iterator[Iterator[str]]:
    """Yield the lines of a follower of the job, which ends with the block."""
    command = [RESCALE, "follow", str(job), "--target", str(target), *SHAPE, "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            process.terminate()


def round_rows(
    gigabytes: float, keys: int, changed: Sequence[int], followed: FollowedJob
) -> Iterator[Sequence[object]]:
    rounds, estimates = followed.rounds, list(estimated_changes(followed))
    base = rounds[0]["seconds"]
    yield gigabytes, "base", base, estimates[0].run_seconds, 1.0
    for count, follower_round, estimate in zip(changed, rounds[1:], estimates, strict=False):
        seconds, read = follower_round["seconds"], follower_round["bytes_read"]
        yield (
            gigabytes,
            f"{100 * count / keys:.1f} %",
            seconds,
            estimate.round_seconds + (OTHER_PARALLELISM - PARALLELISM) * estimate.seconds_of_subtask,
            seconds / base,
            follower_round["rows_written"] / count,
            follower_round["bytes_changed"] / (count * (VALUE_SIZE + KEY_BYTES)),
            f"{read / 1e6:.0f} MB",
            f"{estimate.total('entries'):,}",
            read / 1e6 / seconds,
        )


def estimated_changes(followed: FollowedJob) -> Iterator[FileChanges]:
    """Yield the output of `rescale diff --by-file` for each round but the base."""
    checkpoints = str(followed.checkpoint.parent)
    places = [checkpoint_directory(checkpoints, each["checkpoint"]) for each in followed.rounds]
    for earlier, later in pairwise(places):
        yield file_changes(open_snapshot(earlier), open_snapshot(later))


def downtime_rows(
    gigabytes: float, changed: int, flink: Flink, job: Job, home: Path, followed: FollowedJob
) -> Iterator[Sequence[object]]:
    other = job.with_(parallelism=OTHER_PARALLELISM, max_parallelism=OTHER_MAXIMUM)
    restart_seconds = 0.0
    ways: tuple[tuple[str, list[str], Path, Job], ...] = (
        ("warm up", [], followed.checkpoint, job),
        ("restart", [], followed.checkpoint, job),
        (
            "follow --finish",
            ["follow", str(followed.checkpoint.parent), "--target", str(home / "target"), "--finish"],
            home / "target",
            other,
        ),
        (
            "native savepoint",
            ["run", str(followed.savepoint), "--target", str(home / "whole"), *SHAPE],
            home / "whole",
            other,
        ),
    )
    for way, command, snapshot, shaped_job in ways:
        command_seconds = _seconds([RESCALE, *command]) if command else 0.0
        start_seconds = restore_seconds(flink, shaped_job, snapshot, home / way.replace(" ", "-"))
        restart_seconds = restart_seconds or (start_seconds if way == "restart" else 0.0)
        if way == "warm up":
            continue
        allowed = 5 + changed * (VALUE_SIZE + KEY_BYTES) / 200e6
        total_seconds = command_seconds + start_seconds
        yield gigabytes, way, command_seconds, start_seconds, total_seconds, total_seconds - restart_seconds, allowed


def reading_rates(checkpoint: Path) -> tuple[float, float, float]:
    """Return MB of SST files per CPU-second: all entries decoded, and a bare scan; and the ratio of the two."""
    for _ in range(2):  # the first turn reads from the disk and compiles the loops
        megabytes = decoded = scanned = 0.0
        for opened in opened_databases(checkpoint):
            paths = list(opened.directory.glob("*.sst"))
            megabytes += sum(path.stat().st_size for path in paths) / 1e6
            start = time.process_time()
            for path in paths:
                decode_entries(path)
            after_entries = time.process_time()
            walk_rows(opened)
            decoded += after_entries - start
            scanned += time.process_time() - after_entries
    return megabytes / decoded, megabytes / scanned, scanned / decoded


def decode_entries(path: Path) -> None:
    with path.open("rb") as file:
        for _ in entry_batches(SstTable(partial(read_at, file.fileno()), path.stat().st_size, str(path))):
            pass


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

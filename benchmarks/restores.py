"""Time of Flink's restore: from Rescale's results, with Flink's own rescaling, and at an unchanged parallelism.

    python benchmarks/restores.py [--gigabytes 1] [--rounds 3] [--flink 1.20.5]

A native savepoint of four subtasks is restored at parallelism 4 (as it is), 6, 3 and 2. Each change of the parallelism
is made in three ways: by Flink alone, by a result that keeps RocksDB, and by a canonical result. Another max
parallelism is restored from RocksDB's files and from canonical state. Times are those of one job in Flink's log, from
the first task that starts to restore until the last task runs. Each time is a median of rounds in which the variants
take turns. MB fetched are the sizes in the handles of the subtasks. The last column is the time of `rescale run`,
including the start of processes: a job is also down meanwhile.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from tabulate import tabulate

import tests_path  # noqa: F401
from oracle.harness import Flink, Job
from processes import cost
from rescale.snapshot.reading.opening import open_snapshot

KEY_BYTES = 20
MAXIMUM, OTHER_MAXIMUM = 128, 1000
SWITCHED = re.compile(r"^(\d\d:\d\d:\d\d,\d{3}) .* switched from (DEPLOYING to INITIALIZING|INITIALIZING to RUNNING)\.")
JVM = ("-XX:TieredStopAtLevel=4", "-Xms2g", "-Xmx2g", "-Xmn800m")
"""JVM options of a long-running task manager; the JVMs of tests compile less, since they end soon."""

OWN_MEMORY = {"state.backend.rocksdb.memory.managed": "false"}
"""Options for memtables of RocksDB's default size. With the managed memory of tests, each megabyte is flushed."""

WAYS = {
    "as it is": (4, MAXIMUM, None),
    **{
        f"4 → {parallelism}, {way}": (parallelism, MAXIMUM, options)
        for parallelism in (6, 3, 2)
        for way, options in (
            ("Flink alone", None),
            ("ours, RocksDB", ["--format", "keep"]),
            ("ours, canonical", ["--format", "canonical"]),
        )
    },
    "4 → 6, 128 → 1000, RocksDB": (6, OTHER_MAXIMUM, ["--format", "keep"]),
    "4 → 6, 128 → 1000, canonical": (6, OTHER_MAXIMUM, ["--format", "canonical"]),
}
"""Parallelism, max parallelism, and the options of `rescale run`, or None without a run, by variant."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--value-size", type=int, default=1000, help="bytes of each value")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flink", default="1.20.5", help="the release of Flink")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    keys = int(arguments.gigabytes * 1e9 / (arguments.value_size + KEY_BYTES))
    parameters = {"keys": keys, "bytes": arguments.value_size}
    job = Job("bulk", 4, parameters, max_parallelism=MAXIMUM, backend="rocksdb", configuration=OWN_MEMORY)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder, Flink(arguments.flink, jvm=JVM) as flink:
        measure(Path(folder), flink, job, arguments.rounds)


def measure(home: Path, flink: Flink, job: Job, rounds: int) -> None:
    source = flink.snapshot(job, home / "source", "native", timeout=600)
    snapshots, runs = dict.fromkeys(WAYS, source), {}
    for way, (parallelism, maximum, options) in WAYS.items():
        if options is not None:
            snapshots[way] = home / re.sub(r"\W+", "-", way)
            shape = ["--parallelism", str(parallelism), "--max-parallelism", str(maximum), *options]
            command = [
                str(Path(sys.executable).with_name("rescale")),
                "run",
                str(source),
                "--target",
                str(snapshots[way]),
            ]
            runs[way] = cost(partial(subprocess.run, [*command, *shape], check=True, capture_output=True))
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds + 1):
        for way, (parallelism, maximum, _) in WAYS.items():
            shaped_job = job.with_(parallelism=parallelism, max_parallelism=maximum)
            seconds = restore_seconds(flink, shaped_job, snapshots[way], home / f"{turn}")
            if turn:  # the first round warms up
                times[way].append(seconds)
    unchanged = statistics.median(times["as it is"])
    rows = []
    for way, seconds in times.items():
        median = statistics.median(seconds)
        run = f"{runs[way].seconds:.1f} s" if way in runs else ""
        rows.append(
            (
                way,
                f"{median * 1000:.0f} ms",
                f"{median / unchanged:.2f}",
                fetched_megabytes(snapshots[way], WAYS[way][0]),
                run,
            )
        )
    size = sum(path.stat().st_size for path in source.iterdir()) / 1e6
    print(tabulate(rows, headers=(f"{size:.0f} MB", "restored in", "÷ as it is", "MB fetched", "rescale run")))


def restore_seconds(flink: Flink, job: Job, snapshot: Path, home: Path) -> float:
    """Return the seconds from the first task that starts to restore until the last task runs."""
    before = flink.log.stat().st_size
    flink.snapshots(job, home, "wave", restored=snapshot, timeout=300)
    with flink.log.open("rb") as log:
        log.seek(before)
        switches = [SWITCHED.match(line) for line in log.read().decode(errors="replace").splitlines()]
    moments = [datetime.strptime(match[1], "%H:%M:%S,%f") for match in switches if match]
    passed = max(moments) - min(moments)
    return (passed if passed >= timedelta() else passed + timedelta(days=1)).total_seconds()


def fetched_megabytes(snapshot: Path, parallelism: int) -> str:
    """Return the MB that the subtasks fetch; "" if a subtask needs the files of several old subtasks."""
    operators = open_snapshot(str(snapshot)).operators
    if any(operator.databases and operator.parallelism != parallelism for operator in operators):
        return ""
    files = [file for operator in operators for database in operator.databases for file in database.files]
    keyed = [stream for operator in operators for stream in operator.keyed]
    return f"{(sum(f.extent.length for f in files) + sum(s.extent.length for s in keyed)) / 1e6:.0f}"


if __name__ == "__main__":
    main()

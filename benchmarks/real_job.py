"""Time of `rescale run` on the state of a real job, by its parts, beside the estimate of `rescale plan`.

    python benchmarks/real_job.py [--megabytes 264] [--value-size 100 1000] [--flink 2.3.0] [--rounds 3]
                                  [--rescale .venv/bin/rescale ../other/.venv/bin/rescale] [--directory DIR]

A job of a real session cluster keeps several states a key in RocksDB: a value, a map of three entries, a value with a
time to live, and a timer of each kind. Random keys change all the time, and RocksDB writes several levels. A canonical
savepoint and then an incremental checkpoint are taken, and the job is cancelled. Flink's processes stay, and share the
machine with the command. Both snapshots go from parallelism 6 and max parallelism 128 to 4 and 1000. `--rescale` names
commands to compare, such as that of another checkout, and each of them runs once in every round. A first round, which
compiles, does not count.

Columns, in seconds, as medians:

    plan       until the plan is printed: inspect, plan, and the insight into it
    report     from then until the report of the plan is written; 0 if that comes after the first read
    start      from then until the first bytes are read: the start of the step's process and of its workers
    read, write, validate   as the command prints them
    between    between the parts read, write and validate
    publish    from the end of these parts until `_metadata` lies in the target
    after      until the command exits
    all        until `_metadata` lies in the target: how long the job stands still for the command
    CPU        of all processes of the command, which depends less on other load of the machine
    estimate   the estimate of `rescale plan`, and its deviation from `all`
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil
from tabulate import tabulate

import tests_path  # noqa: F401
from cut_over import RESCALE, SHAPES, TIMEOUT_SECONDS, Bulk, take_savepoint
from processes import cpu_seconds, usual_environment
from rescale.airflow.flink.last_checkpoint import cancel, newest_checkpoint, take_checkpoint
from rescale.flink_rest.client import SavepointFormat, StopMode
from support.session_cluster import session_cluster, wait_until

OVERHEAD_BYTES = 190
"""Bytes of a key in a savepoint, in addition to those of its value."""

LEVELS = {
    "execution.checkpointing.interval": "1d",
    "state.backend.rocksdb.writebuffer.size": "8mb",
    "state.backend.rocksdb.compaction.level.target-file-size-base": "16mb",
    "state.backend.rocksdb.compaction.level.max-size-level-base": "32mb",
}
"""Options of Flink: checkpoints only by request, and small levels of RocksDB, so that there are several."""

STAGES = {"read": "read and check every record", "write": "write every record", "validate": "validate"}
"""Prefixes of the lines that a run prints about its stages; all other stages count as writing."""

STAGE_LINE = re.compile(r"^(?P<stage>[a-z ]+): .* in (?P<seconds>[\d.]+) s$")
PARTS = ("plan", "report", "start", *STAGES, "between", "publish", "after", "all", "CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--megabytes", type=float, nargs="+", default=[264.0], help="approximate size of the canonical savepoint"
    )
    parser.add_argument("--value-size", type=int, nargs="+", default=[100, 1000], help="bytes of the largest value")
    parser.add_argument("--flink", default="2.3.0", help="the release of Flink")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, after a first one that does not count")
    parser.add_argument("--rescale", nargs="+", default=[RESCALE], help="the commands to compare")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    rows: list[Sequence[object]] = []
    for megabytes, value_size in product(arguments.megabytes, arguments.value_size):
        with ExitStack() as stack:
            home = Path(stack.enter_context(TemporaryDirectory(dir=arguments.directory)))
            cluster = stack.enter_context(session_cluster(arguments.flink, memory="2g"))
            keys = int(megabytes * 1e6 / (value_size + OVERHEAD_BYTES))
            bulk = Bulk(cluster, str(home), home, (str(keys), str(value_size), "1000", "more"), SHAPES, options=LEVELS)
            sources = snapshots(bulk, keys)
            for row in measurements(home, sources, arguments.rescale, arguments.rounds):
                rows.append((value_size, *row))
                print(*rows[-1], file=sys.stderr)
    print(tabulate(rows, ("value", "source", "MB", "command", *PARTS, "estimate", "off"), floatfmt=".1f"))


def snapshots(bulk: Bulk, keys: int) -> dict[str, str]:
    """Run the job until it has its state, and end it; return a savepoint and its last checkpoint."""
    bulk.begin()
    wait_until(lambda: bulk.written_keys() > 1.05 * keys, "the state to be there", TIMEOUT_SECONDS)
    savepoint = take_savepoint(bulk, StopMode.RUN_ON, SavepointFormat.CANONICAL)
    with bulk.cluster.open() as flink:
        take_checkpoint(flink, bulk.job_id)
        cancel(flink, bulk.job_id)
    return {"savepoint": savepoint, "checkpoint": newest_checkpoint(f"{bulk.home}/checkpoints/{bulk.job_id}")}


def measurements(
    home: Path, sources: dict[str, str], commands: Sequence[str], rounds: int
) -> Iterator[tuple[object, ...]]:
    (_, (parallelism, maximum)) = SHAPES
    target, runs_by_command = home / "target", dict[tuple[str, str], list[dict[str, float]]]()
    estimates = {}
    for number, (name, source), command in product(range(rounds + 1), sources.items(), commands):
        options = ["--target", str(target), "--parallelism", str(parallelism), "--max-parallelism", str(maximum)]
        if not number:
            answer = subprocess.check_output([command, "plan", source, *options, "--output", "json"])
            plan = json.loads(answer)
            estimates[name, command] = plan["bytes_moved"], plan["insight"]["durations"]["run"]
        parts = measure_parts([command, "run", source, *options], target)
        if number:
            runs_by_command.setdefault((name, command), []).append(parts)
        for leftover in (target, target.with_name("target.rescale")):
            shutil.rmtree(leftover, ignore_errors=True)
    for (name, command), runs in runs_by_command.items():
        size, estimate = estimates[name, command]
        medians = [median(run[part] for run in runs) for part in PARTS]
        yield (
            name,
            f"{size / 1e6:.0f}",
            command,
            *medians,
            estimate,
            f"{estimate / medians[PARTS.index('all')] - 1:+.0%}",
        )


def measure_parts(command: Sequence[str], target: Path) -> dict[str, float]:
    """Run a command to its end; return the seconds of its parts."""
    begun, cpu = time.time(), cpu_beside_flink()
    times: dict[str, float] = {}
    stage_seconds = dict.fromkeys(STAGES, 0.0)
    log = []
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=usual_environment()
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            now = time.time() - begun
            log.append(line)
            if line.startswith("plan "):
                times.setdefault("plan", now)
            elif line.startswith("report: "):
                times.setdefault("report", now)
            elif match := STAGE_LINE.match(line):
                stage = next((stage for stage, begin in STAGES.items() if match["stage"].startswith(begin)), "write")
                stage_seconds[stage] += float(match["seconds"])
                times.setdefault("first", now - float(match["seconds"]))
                times["last"] = now
    ended = time.time() - begun
    if process.returncode:
        sys.exit("".join(log))
    published = (target / "_metadata").stat().st_mtime - begun
    planned = times["report"] if times["report"] < times["first"] else times["plan"]
    return {
        "plan": times["plan"],
        "report": planned - times["plan"],
        "start": times["first"] - planned,
        **stage_seconds,
        "between": times["last"] - times["first"] - sum(stage_seconds.values()),
        "publish": published - times["last"],
        "after": ended - published,
        "all": published,
        "CPU": cpu_beside_flink() - cpu,
    }


def cpu_beside_flink() -> float:
    """Return the CPU seconds of this process and its descendants, without Flink's."""
    flink = (child for child in psutil.Process().children() if child.name() == "java")
    return cpu_seconds() - sum(sum(jvm.cpu_times()[:2]) for jvm in flink)


if __name__ == "__main__":
    main()

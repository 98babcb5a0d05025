"""`rescale run` from start to exit of its last process, against a bare SparkContext with one Python job, in one run.

    PYTHONPATH=tests python benchmarks/whole_run.py [--gigabytes 0.3] [--rounds 3] [--max-parallelism 1000]
                                                    [--directory DIR]

The demo's savepoint of some kilobytes, and one of any size: canonical, and as RocksDB's files, which are only referred
to and proven file by file. Every way takes its turn in every round, and its median counts; the first round has warmed
up what is compiled. CPU is user and system time of all processes, the JVM and the workers among them: those that
outlive who started them are ended by this process.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from tabulate import tabulate

import rescale.demo
from big_databases import write_databases
from big_savepoint import write_savepoint
from processes import Cost

PROCESSES = 2
PARALLELISM = 3
BARE = f"""
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[{PROCESSES}]").setAppName("bare")
conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
context = SparkContext(conf=conf)
assert context.parallelize(range(2), 2).map(lambda number: number + 1).collect() == [1, 2]
context.stop()
"""
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.3, help="of the large savepoint; 0: none")
    parser.add_argument("--rounds", type=int, default=3, help="that count, behind one that does not")
    parser.add_argument("--max-parallelism", type=int, default=1000, help="the new one; the old one is 128")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        home = Path(folder)
        rehash = ("--max-parallelism", str(arguments.max_parallelism))
        runs = {"rescale run, the demo's savepoint": (str(Path(rescale.demo.__file__).parent / "savepoint"), *rehash)}
        if arguments.gigabytes:
            write_savepoint(home / "source", int(arguments.gigabytes * 1e9))
            write_databases(home / "source", home / "databases")
            runs[f"rescale run, {arguments.gigabytes:g} GB"] = (str(home / "source"), *rehash)
            referring = ("--files", "refer", "--proof", "files")
            runs[f"rescale run, {arguments.gigabytes:g} GB referred to"] = (str(home / "databases"), *referring)
        measure(home, runs, arguments.rounds)


def measure(home: Path, runs: dict[str, tuple[str, ...]], rounds: int) -> None:
    common = ("--target", str(home / "target"), "--master", f"local[{PROCESSES}]", "--parallelism", str(PARALLELISM))
    costs: dict[str, list[Cost]] = {}
    for number in range(rounds + 1):
        turns = {"bare SparkContext, one job": [sys.executable, "-c", BARE]}
        for what, words in runs.items():
            turns[what] = [sys.executable, "-m", "rescale.cli.main", "run", *words, *common]
        for what, command in turns.items():
            spent = cost_of(command)
            if number:
                costs.setdefault(what, []).append(spent)
            for left in ("target", "target.rescale"):
                shutil.rmtree(home / left, ignore_errors=True)
    medians = {what: Cost(*map(median, zip(*some, strict=True))) for what, some in costs.items()}
    bare = next(iter(medians.values()))
    rows = [
        (
            what,
            f"{one.seconds:.1f} s",
            f"{one.cpu:.1f} s",
            f"{one.seconds / bare.seconds:.2f}",
            f"{one.cpu / bare.cpu:.2f}",
        )
        for what, one in medians.items()
    ]
    print(tabulate(rows, headers=("median", "time", "CPU", "time ÷ bare", "CPU ÷ bare")))


def cost_of(command: list[str]) -> Cost:
    """Of a command that succeeds, until all processes have ended that came of it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start, before = time.perf_counter(), _cpu_of_ended()
    done = subprocess.run(
        command, env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"}, capture_output=True, text=True, check=False
    )
    with suppress(ChildProcessError):
        while True:
            os.wait()
    if done.returncode:
        sys.exit(done.stderr)
    return Cost(time.perf_counter() - start, _cpu_of_ended() - before)


def _cpu_of_ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

"""Costs of `rescale run`, from its start to the exit of its last process, beside a SparkContext with one Python job.

    python benchmarks/whole_run.py [--gigabytes 0.3] [--rounds 3] [--max-parallelism 1000]
                                                    [--directory DIR]

There are three savepoints. That of the demo has some kilobytes; the other two have the given size. One of these is
canonical, and gets another max parallelism, also by Flink's State Processor API. The other has RocksDB's files: the
result refers to them, and the proof compares them file by file. The commands take turns in every round. The table shows
medians without the first round, which compiles loops. CPU time is user and system time of all processes, including the
JVM and the workers.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

import rescale.demo
from big_databases import write_databases
from big_savepoint import write_savepoint
from processes import Cost, cost_of_command, median_cost, megabytes_in
from state_processor import state_processor

PROCESSES = 2
PARALLELISM = 3
BARE_PROGRAM = f"""
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[{PROCESSES}]").setAppName("bare")
conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
context = SparkContext(conf=conf)
assert context.parallelize(range(2), 2).map(lambda number: number + 1).collect() == [1, 2]
context.stop()
"""
BARE_SPARK = "bare SparkContext, one job"
DEMO = "rescale run, the demo's savepoint"
REHASH = "rescale run, rehash"
FIRST = "rescale run, rehash, first on its machine"
PEER = "State Processor API, the same rehash"
REFERRED = "rescale run, RocksDB's files referred to"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.3, help="size of the large savepoint; 0: none")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, after a first one that does not count")
    parser.add_argument("--max-parallelism", type=int, default=1000, help="the new max parallelism; the old one is 128")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        costs = measure(Path(folder), arguments.gigabytes, arguments.max_parallelism, arguments.rounds)
    bare = costs[BARE_SPARK]
    rows = [
        (what, f"{s:.1f} s", f"{cpu:.1f} s", f"{s / bare.seconds:.2f}", f"{cpu / bare.cpu:.2f}")
        for what, (s, cpu) in costs.items()
    ]
    print(tabulate(rows, headers=("median", "time", "CPU", "time ÷ bare", "CPU ÷ bare")))


def measure(home: Path, gigabytes: float, maximum: int, rounds: int) -> dict[str, Cost]:
    """Return the median cost of each command, and the cost of a rehash that still has to compile its loops."""
    rehash = ("--max-parallelism", str(maximum))
    commands = {
        BARE_SPARK: [sys.executable, "-c", BARE_PROGRAM],
        DEMO: run_command(home, Path(rescale.demo.__file__).parent / "savepoint", *rehash),
    }
    if gigabytes:
        source, databases = home / "source", home / "databases"
        write_savepoint(source, int(gigabytes * 1e9))
        write_databases(source, databases)
        commands[REHASH] = run_command(home, source, *rehash)
        commands[PEER] = state_processor(source, home / "target", maximum, home)
        commands[REFERRED] = run_command(home, databases, "--files", "refer", "--proof", "files")
    costs: dict[str, list[Cost]] = {}
    for number in range(rounds + 1):
        for what, command in commands.items():
            spent = cost_of_command(command)
            if what == PEER and megabytes_in(home / "target") < 0.9 * megabytes_in(source):
                sys.exit("the peer has not moved the state")
            if number:
                costs.setdefault(what, []).append(spent)
            for leftover in ("target", "target.rescale"):
                shutil.rmtree(home / leftover, ignore_errors=True)
    median_costs = {what: median_cost(each) for what, each in costs.items()}
    if gigabytes:
        median_costs[FIRST] = cost_of_command(["env", f"NUMBA_CACHE_DIR={home / 'numba'}", *commands[REHASH]])
    return median_costs


def run_command(home: Path, source: Path, *options: str) -> list[str]:
    """Return the command line of `rescale run` into `target`."""
    common = ("--target", str(home / "target"), "--master", f"local[{PROCESSES}]", "--parallelism", str(PARALLELISM))
    return [sys.executable, "-m", "rescale.cli.main", "run", str(source), *options, *common]


if __name__ == "__main__":
    main()

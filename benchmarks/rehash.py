"""Another max parallelism for a canonical savepoint: MB of source per CPU second, beside the limits of the machine.

    python benchmarks/rehash.py [--gigabytes 1] [--value-size 1000] [--keys long] [--states 1] [--max-parallelism 1000]
                                [--format rocksdb] [--spark [MASTER]]

The limits are a plain copy of the files, and one pass of their bytes through Spark's shuffle in opaque blocks. CPU time
is user and system time of all processes in the second of two rounds; their start does not count. Peak memory is that of
the largest Python process, and of the JVM. With `--spark` the steps run in Spark instead of worker processes; then the
driver's part of the CPU time is printed, too. `--spark local-cluster[4,1,1024]` starts four executors of one core.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pyspark import SparkContext
from tabulate import tabulate

from big_savepoint import write_savepoint
from processes import Cost, cost, driver_cpu_seconds, megabytes_in, peak_memory
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.processes import process_tasks
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.tasks.spark.spark_tasks import spark_tasks
from rescale.plan.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Format
from rescale.runstate.claim import claim

PROCESSES = 2
LOCAL_SPARK = f"local[{PROCESSES}]"
STEPS: dict[str, Callable[[Plan, Tasks], object]] = {
    "reshuffle": reshuffle_keyed_state,
    "redistribute": redistribute_operator_state,
    "validate": validate_coverage,
}
BLOCK = 4 * 1024 * 1024
PARALLELISM = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--value-size", type=int, default=1000, help="bytes of each value")
    parser.add_argument("--keys", choices=("long", "string"), default="long")
    parser.add_argument("--states", type=int, default=1, help="how many states share the keys")
    parser.add_argument("--max-parallelism", type=int, default=1000, help="the new max parallelism; the old one is 128")
    parser.add_argument(
        "--format", choices=list(Format), default=Format.CANONICAL, type=Format, help="format of the result"
    )
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        nargs="?",
        const=LOCAL_SPARK,
        help="run the steps in Spark, by default in %(const)s, instead of worker processes",
    )
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        home = Path(folder)
        size = int(arguments.gigabytes * 1e9)
        write_savepoint(
            home / "source", size, value_size=arguments.value_size, keys=arguments.keys, states=arguments.states
        )
        report(home / "source", str(arguments.max_parallelism), arguments.format, arguments.spark)


def report(source: Path, maximum: str, result: Format, master: str | None) -> None:
    costs, peaks = measure(source, maximum, result, master)
    megabytes = megabytes_in(source)
    rows = [
        (what, f"{megabytes / spent.cpu:.0f}", f"{megabytes / spent.seconds:.0f}", f"{spent.seconds:.1f} s")
        for what, spent in costs.items()
        if "redistribute" not in what  # the savepoint has hardly any operator state
    ]
    headers = (f"{megabytes:.0f} MB of source, 128 → {maximum}, {result}", "MB per CPU-second", "MB/s", "time")
    print(tabulate(rows, headers=headers))
    print("peak resident MB:", ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(peaks.items())))


def measure(
    source: Path, maximum: str, result: Format, master: str | None = None
) -> tuple[dict[str, Cost], dict[str, float]]:
    """Return the cost of each step and of its limits, and peak memory in MB; with a `master`, steps run in Spark."""
    home = source.parent
    costs: dict[str, Cost] = {}
    with spark_tasks("benchmark", master or LOCAL_SPARK) as spark, process_tasks(PROCESSES) as processes:
        tasks: Tasks = processes if master is None else spark
        for turn in range(2):
            target = home / f"target-{turn}"
            request = make_request(
                str(source), str(target), [str(PARALLELISM)], max_parallelism=[maximum], format=result
            )
            plan = prepare(request).plan
            claim(plan)
            costs["plain copy"] = cost(lambda: shutil.copytree(source, home / "copy"))
            costs["opaque blocks through Spark's shuffle"] = cost(lambda: shuffle_opaque(spark.context, source))
            for step, run in STEPS.items():
                driver_before = driver_cpu_seconds()
                costs[step] = cost(partial(run, plan, tasks))
                if master is not None:
                    costs[f"{step}, driver"] = Cost(costs[step].seconds, driver_cpu_seconds() - driver_before)
            shutil.rmtree(home / "copy")
            shutil.rmtree(target)
        return costs, peak_memory()


def shuffle_opaque(spark: SparkContext, source: Path) -> None:
    """Send every byte of the files through Spark's shuffle once, and count the bytes that arrive."""

    def blocks(extent: tuple[Path, int]) -> Iterator[tuple[int, bytes]]:
        with extent[0].open("rb") as file:
            file.seek(extent[1])
            yield extent[1] // BLOCK % PARALLELISM, file.read(BLOCK)

    files = [(path, path.stat().st_size) for path in source.iterdir()]
    extents = [(path, begin) for path, size in files for begin in range(0, size, BLOCK)]
    rows = spark.parallelize(extents, PROCESSES).flatMap(blocks)
    arrived = rows.partitionBy(PARALLELISM, int).map(lambda row: len(row[1])).sum()
    assert arrived == sum(size for _, size in files)


if __name__ == "__main__":
    main()

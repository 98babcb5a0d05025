"""Another max parallelism for a canonical savepoint: MB of source per CPU-second, beside a plain copy of the files.

    python benchmarks/rehash.py [--gigabytes 1] [--value-size 1000] [--keys long] [--states 1] [--max-parallelism 1000]
                                [--format rocksdb]

CPU is user and system time of driver, JVM and workers, of the second of two rounds; the session's start is not counted.
Peak memory is that of the largest Python worker and of the JVM.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tabulate import tabulate

from big_savepoint import write_savepoint
from processes import Cost, cost, peak_memory
from rescale.execution.spark.spark_tasks import spark_tasks
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.planning.asked.request import Format, make_request
from rescale.planning.prepare import prepare
from rescale.target.claim import claim

PROCESSES = 2
PARALLELISM = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--value-size", type=int, default=1000, help="bytes of each value")
    parser.add_argument("--keys", choices=("long", "string"), default="long")
    parser.add_argument("--states", type=int, default=1, help="how many states share the keys")
    parser.add_argument("--max-parallelism", type=int, default=1000, help="the new one; the old one is 128")
    parser.add_argument("--format", choices=list(Format), default=Format.CANONICAL, type=Format, help="of the result")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        home = Path(folder)
        size = int(arguments.gigabytes * 1e9)
        write_savepoint(
            home / "source", size, value_size=arguments.value_size, keys=arguments.keys, states=arguments.states
        )
        measure(home, str(arguments.max_parallelism), arguments.format)


def measure(home: Path, maximum: str, result: Format) -> None:
    source = home / "source"
    megabytes = sum(path.stat().st_size for path in source.iterdir()) / 1e6
    costs: dict[str, Cost] = {}
    with spark_tasks("benchmark", f"local[{PROCESSES}]") as tasks:
        for turn in range(2):
            target = home / f"target-{turn}"
            shape = ([str(PARALLELISM)], (), (), [maximum])
            plan = prepare(make_request(str(source), str(target), *shape, format=result)).plan
            claim(plan)
            costs["plain copy"] = cost(lambda: shutil.copytree(source, home / "copy"))
            costs["reshuffle"] = cost(lambda plan=plan: reshuffle_keyed_state(plan, tasks))
            redistribute_operator_state(plan, tasks)
            costs["validate"] = cost(lambda plan=plan: validate_coverage(plan, tasks))
            shutil.rmtree(home / "copy")
            shutil.rmtree(target)
        peaks = peak_memory()
    rows = [
        (what, f"{megabytes / spent.cpu:.0f}", f"{megabytes / spent.seconds:.0f}", f"{spent.seconds:.1f} s")
        for what, spent in costs.items()
    ]
    headers = (f"{megabytes:.0f} MB of source, 128 → {maximum}, {result}", "MB per CPU-second", "MB/s", "time")
    print(tabulate(rows, headers=headers))
    print("peak resident MB:", ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(peaks.items())))


if __name__ == "__main__":
    main()

"""How time and memory grow: with the state, with cores, with what is large or many in it.

    python benchmarks/growth.py [--gigabytes 0.1 1 10] [--cores 2] [--part 0.25] [--only sizes cores hot record states
                                small] [--directory DIR]

Every case is a savepoint of its own, another max parallelism for it, and a Spark of its own, whose start is not
counted; what it compiles and starts in its first tasks is not either, for a small state goes before. Peak memory is
that of the JVM, and what the driver and the largest Python worker say of themselves: a worker may have ended.

    sizes       the same savepoint in several sizes: seconds a GB, and how they are to those of the first one
    cores       one core against all, of the size in the middle; no process gets more than it is told to have
    hot         two key groups, each larger than a worker may hold
    record      one record of 1 GiB
    states      100 states
    small       10^8 records of 20 bytes

`--part` is how large the last four are of that, to try them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tabulate import tabulate

from big_savepoint import write_savepoint
from processes import Cost, cost, peak_memory
from rescale.execution.meter import METER
from rescale.execution.spark.spark_tasks import SparkTasks, spark_tasks
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.planning.asked.request import make_request
from rescale.planning.prepare import prepare
from rescale.target.claim import claim

ALL_CORES = os.sched_getaffinity(0)

GB = 1_000_000_000
RECORD = 30
"""Bytes of a record beside its value (`write_savepoint`)."""

WARM = 20_000_000
"""Bytes of the state that goes before."""


@dataclass(frozen=True)
class Case:
    """A savepoint of `size` bytes by `write_savepoint`, for which `maximum` is the new max parallelism."""

    kind: str
    name: str
    size: int
    cores: int
    maximum: int = 1000
    parallelism: int = 6
    savepoint: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    bytes: int
    cost: Cost
    peaks: dict[str, float]

    @property
    def seconds_a_gigabyte(self) -> float:
        return self.cost.seconds / self.bytes * GB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--part", type=float, default=1, help="how large what is special is, of what it should be")
    parser.add_argument("--only", nargs="+", choices=("sizes", "cores", "hot", "record", "states", "small"))
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    chosen = [
        case
        for case in cases(arguments.gigabytes, arguments.cores, arguments.part)
        if arguments.only is None or case.kind in arguments.only
    ]
    found = []
    for case in chosen:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as folder, a_process() as one:
            found.append((case, one.submit(measured, case, Path(folder)).result()))
    show(found)


def cases(gigabytes: list[float], cores: int, part: float) -> Iterator[Case]:
    for size in gigabytes:
        yield Case("sizes", f"{size:g} GB", int(size * GB), cores)
    middle = sorted(gigabytes)[len(gigabytes) // 2]
    for number in (1, cores):
        yield Case("cores", f"{middle:g} GB on {number}", int(middle * GB), number)
    few = {"parallelism": 1, "max_parallelism": 2}
    yield Case("hot", "two key groups", int(4 * GB * part), cores, maximum=3, parallelism=1, savepoint=few)
    large = int((1 << 30) * part)
    one = {"value_size": large - RECORD, "parallelism": 1}
    yield Case("record", f"a record of {large >> 20} MiB", large, cores, parallelism=1, savepoint=one)
    yield Case("states", "100 states", int(GB * part), cores, savepoint={"states": 100})
    number = int(1e8 * part)
    yield Case("small", f"{number:,} records of 20 bytes", number * (RECORD + 20), cores, savepoint={"value_size": 20})


def a_process() -> ProcessPoolExecutor:
    """Of its own: a JVM lives on in the process that started it, with the cores that it had then."""
    return ProcessPoolExecutor(1, get_context("spawn"))


def measured(case: Case, home: Path) -> Measured:
    with a_process() as maker:  # whose memory does not count
        maker.submit(write_savepoint, home / "warm", WARM).result()
        maker.submit(write_savepoint, home / "source", case.size, **case.savepoint).result()
    before = METER.read()
    size = sum(path.stat().st_size for path in (home / "source").iterdir())
    os.sched_setaffinity(0, sorted(ALL_CORES)[: case.cores])
    with spark_tasks("benchmark", f"local[{case.cores}]") as tasks:
        moved(home, "warm", case.maximum, 2, tasks)
        spent = moved(home, "source", case.maximum, case.parallelism, tasks)
        java = peak_memory()["java"]
    told = {"driver": METER.own_since(before), "worker": METER.workers_since(before)}
    return Measured(size, spent, {"java": java, **{who: told[who].worst_memory / 1e6 for who in told}})


def moved(home: Path, source: str, maximum: int, parallelism: int, tasks: SparkTasks) -> Cost:
    target = home / "target"
    plan = prepare(
        make_request(str(home / source), str(target), [str(parallelism)], max_parallelism=[str(maximum)])
    ).plan
    claim(plan)

    def steps() -> None:
        reshuffle_keyed_state(plan, tasks)
        redistribute_operator_state(plan, tasks)
        validate_coverage(plan, tasks)

    spent = cost(steps)
    shutil.rmtree(target)
    shutil.rmtree(home / "target.rescale")
    return spent


def show(found: list[tuple[Case, Measured]]) -> None:
    rows = []
    firsts: dict[str, Measured] = {}
    for case, one in found:
        first = firsts.setdefault(case.kind, one)
        ratio = (
            one.seconds_a_gigabyte / first.seconds_a_gigabyte
            if case.kind == "sizes"
            else (first.cost.seconds / one.cost.seconds if case.kind == "cores" else None)
        )
        peaks = ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(one.peaks.items()))
        times = f"{one.seconds_a_gigabyte:.1f}"
        rows.append((case.name, f"{one.cost.seconds:.1f} s", f"{one.cost.cpu:.1f} s", times, ratio, peaks))
    headers = ("case", "time", "CPU", "seconds a GB", "÷ first (cores: first ÷)", "peak resident MB")
    print(tabulate(rows, headers=headers, floatfmt=".2f"))


if __name__ == "__main__":
    main()

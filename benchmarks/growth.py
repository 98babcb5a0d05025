"""How time and memory grow with the size of the state and of its parts, and with the number of cores.

    python benchmarks/growth.py [--gigabytes 0.1 1 10] [--cores 2] [--part 0.25] [--only sizes cores hot record states
                                small] [--directory DIR]

Each case has its own savepoint and its own workers, and the savepoint gets another max parallelism. A small state is
moved first, so that compilation and the start of workers do not count. The driver and the workers report their own peak
memory, because a worker may end before others could read it; the largest worker counts.

    sizes       the same savepoint in several sizes: seconds per GB, also relative to the first size
    cores       one core and all cores, at the middle size; processes are pinned to these cores
    hot         two key groups, each larger than the memory of a worker
    record      one record of 1 GiB
    states      100 states
    small       10^8 records of 20 bytes

`--part` makes the last four cases smaller, for trials.
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
from processes import Cost, cost
from rescale.execution.meter import METER
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.processes import ProcessTasks, process_tasks
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.runstate.claim import claim

ALL_CORES = os.sched_getaffinity(0)

GB = 1_000_000_000
RECORD_OVERHEAD = 30
"""Bytes of a record in addition to its value (`write_savepoint`)."""

WARM_UP_BYTES = 20_000_000
"""Bytes of the small state that is moved first."""


@dataclass(frozen=True)
class Case:
    """A savepoint of `size` bytes and its new shape; `savepoint` has more arguments of `write_savepoint`."""

    kind: str
    name: str
    size: int
    cores: int
    max_parallelism: int = 1000
    parallelism: int = 6
    savepoint: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """Bytes that a case moved, their cost, and peak memory in MB by process."""

    bytes: int
    cost: Cost
    peaks: dict[str, float]

    @property
    def seconds_per_gigabyte(self) -> float:
        return self.cost.seconds / self.bytes * GB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--part", type=float, default=1, help="factor for the size of the last four cases")
    parser.add_argument("--only", nargs="+", choices=("sizes", "cores", "hot", "record", "states", "small"))
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    chosen = [
        case
        for case in cases(arguments.gigabytes, arguments.cores, arguments.part)
        if arguments.only is None or case.kind in arguments.only
    ]
    results = []
    for case in chosen:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as folder, new_process() as process:
            results.append((case, process.submit(measure_case, case, Path(folder)).result()))
    print_table(results)


def cases(gigabytes: list[float], cores: int, part: float) -> Iterator[Case]:
    for size in gigabytes:
        yield Case("sizes", f"{size:g} GB", int(size * GB), cores)
    middle = sorted(gigabytes)[len(gigabytes) // 2]
    for number in (1, cores):
        yield Case("cores", f"{middle:g} GB on {number}", int(middle * GB), number)
    two_groups = {"parallelism": 1, "max_parallelism": 2}
    yield Case(
        "hot", "two key groups", int(4 * GB * part), cores, max_parallelism=3, parallelism=1, savepoint=two_groups
    )
    large = int((1 << 30) * part)
    large_record = {"value_size": large - RECORD_OVERHEAD, "parallelism": 1}
    yield Case("record", f"a record of {large >> 20} MiB", large, cores, parallelism=1, savepoint=large_record)
    yield Case("states", "100 states", int(GB * part), cores, savepoint={"states": 100})
    number = int(1e8 * part)
    yield Case(
        "small", f"{number:,} records of 20 bytes", number * (RECORD_OVERHEAD + 20), cores, savepoint={"value_size": 20}
    )


def new_process() -> ProcessPoolExecutor:
    """Return a pool of one new process, whose workers run on the cores to which it is pinned at their start."""
    return ProcessPoolExecutor(1, get_context("spawn"))


def measure_case(case: Case, home: Path) -> Measurement:
    with new_process() as maker:  # its memory does not count
        maker.submit(write_savepoint, home / "warm", WARM_UP_BYTES).result()
        maker.submit(write_savepoint, home / "source", case.size, **case.savepoint).result()
    before = METER.read()
    size = sum(path.stat().st_size for path in (home / "source").iterdir())
    os.sched_setaffinity(0, sorted(ALL_CORES)[: case.cores])
    with process_tasks(case.cores) as tasks:
        move(home, "warm", case.max_parallelism, 2, tasks)
        spent = move(home, "source", case.max_parallelism, case.parallelism, tasks)
    usage = {"driver": METER.process_since(before), "worker": METER.workers_since(before)}
    return Measurement(size, spent, {who: usage[who].peak_bytes / 1e6 for who in usage})


def move(home: Path, source: str, max_parallelism: int, parallelism: int, tasks: ProcessTasks) -> Cost:
    target = home / "target"
    plan = prepare(
        make_request(str(home / source), str(target), [str(parallelism)], max_parallelism=[str(max_parallelism)])
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


def print_table(results: list[tuple[Case, Measurement]]) -> None:
    rows = []
    first_by_kind: dict[str, Measurement] = {}
    for case, result in results:
        first = first_by_kind.setdefault(case.kind, result)
        ratio = (
            result.seconds_per_gigabyte / first.seconds_per_gigabyte
            if case.kind == "sizes"
            else (first.cost.seconds / result.cost.seconds if case.kind == "cores" else None)
        )
        peaks = ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(result.peaks.items()))
        times = f"{result.seconds_per_gigabyte:.1f}"
        rows.append((case.name, f"{result.cost.seconds:.1f} s", f"{result.cost.cpu:.1f} s", times, ratio, peaks))
    headers = ("case", "time", "CPU", "seconds a GB", "÷ first (cores: first ÷)", "peak resident MB")
    print(tabulate(rows, headers=headers, floatfmt=".2f"))


if __name__ == "__main__":
    main()

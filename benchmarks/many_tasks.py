"""Costs of many tiny tasks in workers and in Spark, beside the same number of empty tasks in plain Spark.

    python benchmarks/many_tasks.py [--tasks 20000] [--carried 4] [--rounds 1]

Each of Rescale's tasks unpacks its input and a function that holds some MB, as much as a plan of thousands of subtasks.
It also counts the bytes that it processed, and reports progress. The variants take turns in every round, and the tables
show medians. The first tasks, which start workers, are not measured. CPU time is that of driver, JVM and workers.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tabulate import tabulate

from processes import Cost, cost, median_cost, peak_memory
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.processes import process_tasks
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.tasks.spark.spark_tasks import SparkTasks, spark_tasks
from rescale.planning.task_sizes import SLICE_BYTES

PROCESSES = 2


@dataclass(frozen=True)
class IdleWork:
    """Function of a task that does nothing, with content that is sent to the workers."""

    content: bytes

    def __call__(self, unit: int) -> int:
        return unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--carried", type=float, default=4, help="MB of content of the work")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    empty: list[Cost] = []
    ours: dict[str, list[Cost]] = {"ours in Spark": [], "ours in workers": []}
    carried = int(arguments.carried * 1e6)
    with spark_tasks("benchmark", f"local[{PROCESSES}]") as spark, process_tasks(PROCESSES) as processes:
        ways: dict[str, Tasks] = dict(zip(ours, (spark, processes), strict=True))
        for tasks in ways.values():
            run_our_tasks(tasks, 100, 0)
        for _ in range(arguments.rounds):
            empty.append(cost(lambda: run_empty_tasks(spark, arguments.tasks)))
            for way, tasks in ways.items():
                ours[way].append(cost(lambda tasks=tasks: run_our_tasks(tasks, arguments.tasks, carried)))
        peaks = peak_memory()
    empty_cost = median_cost(empty)
    our_costs = {way: median_cost(costs) for way, costs in ours.items()}
    rows = [
        (what, f"{arguments.tasks / seconds:.0f}", f"{1e3 * cpu / arguments.tasks:.2f} ms", f"{seconds:.1f} s")
        for what, (seconds, cpu) in {"empty tasks of Spark's": empty_cost, **our_costs}.items()
    ]
    print(tabulate(rows, headers=(f"{arguments.tasks} tasks", "a second", "CPU each", "time")))
    for way, our_cost in our_costs.items():
        print(f"{way} ÷ empty, seconds: {our_cost.seconds / empty_cost.seconds:.2f}")
        print(f"{way} ÷ empty, cpu: {our_cost.cpu / empty_cost.cpu:.2f}")
    print("peak resident MB:", ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(peaks.items())))


def run_empty_tasks(tasks: SparkTasks, number: int) -> None:
    def nothing(numbers: Iterable[int]) -> Iterator[int]:
        yield from numbers

    assert sum(tasks.context.parallelize(range(number), number).mapPartitions(nothing).collect()) == sum(range(number))


def run_our_tasks(tasks: Tasks, number: int, carried: int) -> None:
    units = [(SLICE_BYTES, i) for i in range(number)]  # large enough for a task each
    progress = Progress("tasks", number * SLICE_BYTES, ByteAction.READ)
    assert sum(tasks.run(IdleWork(os.urandom(carried)), units, progress)) == sum(range(number))


if __name__ == "__main__":
    main()

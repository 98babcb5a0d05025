"""CPU seconds of single tasks: reading and sorting, writing, copying, comparing.

    python benchmarks/task_costs.py [--gigabytes 0.3] [--value-size 1000] [--json FILE] [--directory DIR]

All tasks run in this process, one after the other, so that each is measured alone; the second of two rounds counts.
The rates in `rescale.insight.durations` come from these measurements.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from tabulate import tabulate

from big_savepoint import write_savepoint
from rescale.execution.progress import Progress
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.protocol import Sender, Shuffle, Weighed
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.runstate.claim import claim

U = TypeVar("U")
R = TypeVar("R")
Costs = dict[str, list[tuple[int, float]]]


@dataclass
class MeasuredTasks:
    """Runs tasks one after the other, and records (bytes, CPU seconds) of every unit and every partition by step."""

    in_process: InProcessTasks
    costs: Costs = field(default_factory=lambda: defaultdict(list))
    cores: int = 16

    def run(
        self,
        work: Callable[[U], R],
        units: Weighed[U],
        progress: Progress,
        *,
        threads_suffice: bool = False,  # noqa: ARG002
    ) -> list[R]:
        results: list[R] = []
        for weight, unit in units:
            begun = time.process_time()
            results.append(work(unit))
            self.costs[progress.step].append((weight, time.process_time() - begun))
        return results

    def shuffle(
        self,
        make_sender: Callable[[Callable[[int], None]], Sender[U]],
        units: Weighed[U],
        partitions: int,
        progress: Progress,
    ) -> Shuffle:
        sizes = {id(unit): weight for weight, unit in units}

        def measured(done: Callable[[int], None]) -> Sender[U]:
            sender = make_sender(done)

            def send(batches: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
                for batch in batches:
                    begun = time.process_time()
                    rows = list(sender([batch]))
                    spent = time.process_time() - begun
                    self.costs[progress.step].append((sum(sizes[id(unit)] for unit in batch), spent))
                    yield from rows

            return send

        return _MeasuredShuffle(self.in_process.shuffle(measured, units, partitions, progress), self.costs)


@dataclass
class _MeasuredShuffle:
    shuffled: Shuffle
    costs: Costs

    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        return self.shuffled.read(partition, work)

    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        def measured(partition: int, rows: Iterable[bytes]) -> Iterator[R]:
            begun = time.process_time()
            results = list(work(partition, rows))
            self.costs[progress.step].append((sizes[partition], time.process_time() - begun))
            yield from results

        return self.shuffled.write(sizes, measured, progress)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.3)
    parser.add_argument("--value-size", type=int, default=1000, help="bytes of each value")
    parser.add_argument("--json", type=Path, help="file for all costs")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    costs_by_work: dict[str, Costs] = {}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        home = Path(folder)
        write_savepoint(home / "source", int(arguments.gigabytes * 1e9), value_size=arguments.value_size)
        for what, maximum in (("rehash", ["1000"]), ("copy", [])):
            for turn in range(2):
                target = home / f"{what}-{turn}"
                plan = prepare(make_request(str(home / "source"), str(target), ["6"], max_parallelism=maximum)).plan
                claim(plan)
                tasks = MeasuredTasks(InProcessTasks(16))
                reshuffle_keyed_state(plan, tasks)
                redistribute_operator_state(plan, tasks)
                validate_coverage(plan, tasks)
                costs_by_work[what] = dict(tasks.costs)
                shutil.rmtree(target)
    rows = [
        (what, stage, len(costs), f"{median(size / spent for size, spent in costs if spent) / 1e6:.0f}", _spread(costs))
        for what, stages in costs_by_work.items()
        for stage, costs in stages.items()
    ]
    print(tabulate(rows, headers=("", "stage", "tasks", "MB per CPU-second, median", "slowest ÷ median")))
    if arguments.json:
        rounded = {
            what: {stage: [(size, round(spent, 5)) for size, spent in costs] for stage, costs in stages.items()}
            for what, stages in costs_by_work.items()
        }
        arguments.json.write_text(json.dumps(rounded) + "\n")


def _spread(costs: list[tuple[int, float]]) -> str:
    seconds_per_byte = [spent / size for size, spent in costs if size]
    return f"{max(seconds_per_byte) / median(seconds_per_byte):.2f}"


if __name__ == "__main__":
    main()

"""Costs of thousands of subtasks: CPU time by step, and peak memory so far.

    python benchmarks/many_subtasks.py [--subtasks 10000] [--new-subtasks 8000] [--max-parallelism 32768]
                                       [--new-max-parallelism M] [--processes | --s3] [--directory DIR]

Key groups are small, so subtasks, files and key groups cause the costs, not bytes. Steps run in this process; with
`--processes` they run in workers, whose CPU time counts, too. With `--s3` the snapshot lies on an S3 server in another
process and is only inspected and planned: CPU time is that of this process, and requests are counted.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import boto3
from tabulate import tabulate

from big_savepoint import write_savepoint
from processes import cpu_seconds, peak_memory
from rescale.demo.s3_server import s3_server
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.processes import process_tasks
from rescale.execution.tasks.protocol import Tasks
from rescale.plan.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import Request, make_request
from rescale.report.pages.inspection import inspection, inspection_page
from rescale.report.pages.planned import plan_document, plan_page
from rescale.report.renderers.text import render_text
from rescale.report.stored import put_report
from rescale.runstate.claim import claim
from rescale.runstate.publication import publish
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import join
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store

PROCESSES = 2
VALUE_SIZE = 7000
"""Size of a value in bytes: the state of three key groups is too large to be inlined into `_metadata`."""

BUCKET = "snapshots"

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subtasks", type=int, default=10_000)
    parser.add_argument("--new-subtasks", type=int, default=8_000)
    parser.add_argument("--max-parallelism", type=int, default=32_768)
    parser.add_argument("--new-max-parallelism", type=int, help="default: the old one")
    parser.add_argument("--elements", type=int, default=4, help="number of elements of a list state for each subtask")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--processes", action="store_true")
    mode.add_argument("--s3", action="store_true")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder, ExitStack() as stack:
        home, source = Path(folder), Path(folder, "source")
        write_savepoint(
            source,
            arguments.max_parallelism * (VALUE_SIZE + 30),
            value_size=VALUE_SIZE,
            parallelism=arguments.subtasks,
            max_parallelism=arguments.max_parallelism,
            elements=arguments.elements,
        )
        place, target = str(source), str(home / "target")
        if arguments.s3:
            stack.enter_context(s3_server(home))
            place, target = upload(source), f"s3://{BUCKET}/target"
        maximum = [str(arguments.new_max_parallelism)] if arguments.new_max_parallelism else []
        request = make_request(place, target, [str(arguments.new_subtasks)], max_parallelism=maximum)
        steps = Steps(time.process_time if arguments.s3 else cpu_seconds)
        if arguments.s3:
            inspect_and_plan(steps, request)
        else:
            tasks = stack.enter_context(process_tasks(PROCESSES)) if arguments.processes else InProcessTasks(PROCESSES)
            run(steps, request, tasks)
        peaks = peak_memory() if arguments.processes else {}
        steps.show(f"{arguments.subtasks} → {arguments.new_subtasks} subtasks", peaks)


class Steps:
    """Measurements of all steps; `cpu` returns the CPU seconds so far."""

    def __init__(self, cpu: Callable[[], float]) -> None:
        self._cpu = cpu
        self._rows: list[tuple[str, float, float, int, str]] = []

    def measure(self, what: str, action: Callable[[], T]) -> T:
        requests, start, before = REQUESTS.by_operation, time.perf_counter(), self._cpu()
        result = action()
        spent, seconds = self._cpu() - before, time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        self._rows.append((what, spent, seconds, memory, request_counts(REQUESTS.by_operation - requests)))
        return result

    def show(self, what: str, peaks: dict[str, float]) -> None:
        rows = [*self._rows, ("all", *map(sum, zip(*(row[1:3] for row in self._rows), strict=True)), "", "")]
        headers = (what, "CPU s", "time s", "peak MiB of the driver", "requests")
        print(tabulate(rows, headers=headers, floatfmt=".1f"))
        if peaks:
            print("peak resident MB:", ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(peaks.items())))


def request_counts(requests: Counter[str]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(requests.items()))


def upload(directory: Path) -> str:
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    place = f"s3://{BUCKET}/source"
    store = open_store(place)
    side_by_side(lambda path: store.put(join(place, path.name), path.read_bytes()), directory.iterdir())
    return place


def inspect_and_plan(steps: Steps, request: Request) -> None:
    def inspected() -> str:
        return render_text(inspection_page(inspection(open_snapshot(request.source))))

    def planned() -> str:
        return render_text(plan_page(plan_document(*prepare(request))))

    steps.measure("inspect", inspected)
    steps.measure("plan", planned)


def run(steps: Steps, request: Request, tasks: Tasks) -> None:
    steps.measure("inspect", lambda: render_text(inspection_page(inspection(open_snapshot(request.source)))))
    plan = plan_and_claim(steps, request)
    steps.measure("reshuffle", lambda: reshuffle_keyed_state(plan, tasks))
    steps.measure("redistribute", lambda: redistribute_operator_state(plan, tasks))
    steps.measure("validate", lambda: validate_coverage(plan, tasks))
    steps.measure("publish", lambda: publish(plan))
    steps.measure("report again", lambda: put_report(plan))


def plan_and_claim(steps: Steps, request: Request) -> Plan:
    """Inspect, plan and claim; return the plan alone, since later steps do not need the snapshot in memory."""
    prepared = steps.measure("plan", lambda: prepare(request))
    summary = steps.measure("document of the plan", lambda: plan_document(*prepared))
    steps.measure("text of the plan", lambda: render_text(plan_page(summary)))
    steps.measure("claim", lambda: claim(prepared.plan))
    steps.measure("report", lambda: put_report(prepared.plan, summary))
    return prepared.plan


if __name__ == "__main__":
    main()

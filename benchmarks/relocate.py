"""Relocate and validate, against a plain copy and a plain read with a checksum of the same bytes, in one run.

    python benchmarks/relocate.py [--gigabytes 1] [--directory DIR]

Two at a time on one disk: the plain ways with processes, ours with threads, as on one machine it needs no Spark. Times
are of the last of four rounds, so that every way finds the same warm page cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tabulate import tabulate

from big_savepoint import write_savepoint
from processes import Cost, cost, megabytes_in
from rescale.execution.sources.byte_digests import digest
from rescale.execution.step_tasks import step_tasks
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.planning.asked.request import make_request
from rescale.planning.planner import make_plan
from rescale.snapshot.opening import open_snapshot
from rescale.target.claim import claim

PROCESSES = 2
CHUNK = 4 * 1024 * 1024


def copy_file(pair: tuple[Path, Path]) -> None:
    """In chunks and forced to disk, as the tasks do it."""
    with pair[0].open("rb") as source, pair[1].open("wb") as target:
        while chunk := source.read(CHUNK):
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())


def read_file(path: Path) -> int:
    with path.open("rb") as file:
        return digest(iter(lambda: file.read(CHUNK), b""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as home:
        source = Path(home, "source")
        write_savepoint(source, int(arguments.gigabytes * 1e9))
        report(source)


def report(source: Path) -> None:
    costs = measure(source)
    megabytes = megabytes_in(source)
    seconds = {way: spent.seconds for way, spent in costs.items()}
    read = {"plain read with checksum", "validate"}
    rows = [(way, f"{(2 if way in read else 1) * megabytes / s:.0f} MB/s", f"{s:.1f} s") for way, s in seconds.items()]
    print(tabulate(rows, headers=(f"{megabytes:.0f} MB of keyed state", "speed", "time")))
    print(f"relocate ÷ plain copy: {seconds['plain copy'] / seconds['relocate']:.2f}")
    print(f"validate ÷ plain read: {seconds['plain read with checksum'] / seconds['validate']:.2f}")


def measure(source: Path) -> dict[str, Cost]:
    """What each step cost, and what it cannot cost less than."""
    home = source.parent
    files = [path for path in source.iterdir() if path.name != "_metadata"]
    costs: dict[str, Cost] = {}
    with (
        ProcessPoolExecutor(PROCESSES) as pool,
        step_tasks("benchmark", f"local[{PROCESSES}]") as tasks,
    ):
        for turn in range(4):
            target, copy = home / f"target-{turn}", home / f"copy-{turn}"
            copy.mkdir()
            request = make_request(str(source), str(target), ["6"])
            plan = make_plan(open_snapshot(request.source), request)
            claim(plan)
            pairs = [(path, copy / path.name) for path in files]
            costs["plain copy"] = cost(lambda pairs=pairs: list(pool.map(copy_file, pairs)))
            costs["relocate"] = cost(lambda plan=plan: reshuffle_keyed_state(plan, tasks))
            redistribute_operator_state(plan, tasks)
            written = [path for path in target.iterdir() if path.name != "_metadata"]
            both = [*files, *written]
            costs["plain read with checksum"] = cost(lambda both=both: list(pool.map(read_file, both)))
            costs["validate"] = cost(lambda plan=plan: validate_coverage(plan, tasks))
            shutil.rmtree(target)
            shutil.rmtree(copy)
    return costs


if __name__ == "__main__":
    main()

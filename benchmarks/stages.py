"""CPU time of a rehash by stage: reading, finding records, hashing, sorting, framing, …

    python benchmarks/stages.py [--gigabytes 0.2] [--value-size 1000] [--format rocksdb] [--directory DIR]

Steps run in this process, so that one profile covers a whole step; the second of two rounds counts. The time of a
compiled loop counts as that of the function that calls it, and the time of threads as that of the function that waits
for them.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections import Counter
from pathlib import Path

from tabulate import tabulate

from big_savepoint import write_savepoint
from processes import megabytes_in
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Format
from rescale.runstate.claim import claim

STAGES = {
    "read": (
        "posix.pread",
        "posix.preadv",
        "/blocks/records.py",
        "/execution/sources/",
        "/snapshot/",
    ),
    "find where records begin and end": ("/serializers/", "record_walk.py", "block_loop.py"),
    "hash keys": ("/keys/", "key_groups.py", "composite_key.py"),
    "sort": ("/sort_", "sorted_blocks.py", "key_sort"),
    "shuffle": ("/map_task.py", "/block_rows.py", "/block_buffer.py", "/tasks/in_process.py", "Buffered", "BytesIO"),
    "frame": ("/writers/canonical/",),
    "RocksDB's files": ("/writers/rocksdb/", "/rocksdb/"),
    "write": ("posix.pwrite", "posix.fsync", "/writers/sink.py", "/storage/"),
    "digest and compare": ("digest", "/validation/"),
}
"""Stages, with parts of the `file:name` of their functions; the first stage that matches counts."""
OTHER = "all else"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--value-size", type=int, default=1000, help="bytes of each value")
    parser.add_argument(
        "--format", choices=list(Format), default=Format.CANONICAL, type=Format, help="format of the result"
    )
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        source = Path(folder) / "source"
        write_savepoint(source, int(arguments.gigabytes * 1e9), value_size=arguments.value_size)
        for step, spent in measure(source, arguments.format).items():
            report(step, spent, megabytes_in(source))


def measure(source: Path, result: Format) -> dict[str, Counter[str]]:
    """Return the CPU seconds of every stage, by step."""
    tasks = InProcessTasks()
    for turn in range(2):
        request = make_request(str(source), f"{source}-{turn}", ["6"], max_parallelism=["1000"], format=result)
        plan = prepare(request).plan
        claim(plan)
        moving, validating = cProfile.Profile(time.process_time), cProfile.Profile(time.process_time)
        moving.runcall(reshuffle_keyed_state, plan, tasks)
        redistribute_operator_state(plan, tasks)
        validating.runcall(validate_coverage, plan, tasks)
    return {"reshuffle": by_stage(moving), "validate": by_stage(validating)}


def by_stage(profile: cProfile.Profile) -> Counter[str]:
    spent: Counter[str] = Counter()
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():
        function = f"{file}:{name}"
        matching = (stage for stage, parts in STAGES.items() if any(part in function for part in parts))
        spent[next(matching, OTHER)] += own
    return spent


def report(step: str, spent: Counter[str], megabytes: float) -> None:
    whole = sum(spent.values())
    rows = [(stage, f"{own:.2f} s", f"{own / whole:.0%}") for stage, own in spent.most_common()]
    rows.append(("together", f"{whole:.2f} s", f"{megabytes / whole:.0f} MB per CPU-second"))
    print(tabulate(rows, headers=(f"{step}, {megabytes:.0f} MB", "CPU", "part"), disable_numparse=True), end="\n\n")


if __name__ == "__main__":
    main()

"""Relocation and its validation, beside a plain copy and a plain read with a checksum of the same bytes.

    python benchmarks/relocate.py [--gigabytes 1] [--directory DIR] [--s3 BUCKET]

Two workers share a disk: processes for plain copy and read, threads for Rescale. Times are medians of five rounds; a
round before them does not count, so that all have the same warm page cache.

With `--s3` all files lie in a bucket of the S3 that the AWS variables name. The plain copy is then a CopyObject for
each file, all in parallel.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import uuid
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tabulate import tabulate

from big_savepoint import write_savepoint
from processes import Cost, cost, median_cost
from rescale.execution.meter import METER
from rescale.execution.sources.byte_digests import digest
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.choice import step_tasks
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.runstate.claim import claim
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import is_s3, join, name, split_s3
from rescale.storage.s3.s3_client import client_for
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import Entry, open_store, read_in_chunks

PROCESSES = 2
ROUNDS = 5
CHUNK = 4 * 1024 * 1024


def copy_file(paths: tuple[str, str]) -> None:
    """Copy a file in chunks and sync it to disk, as the tasks do; `paths` are those of the file and of its copy."""
    with Path(paths[0]).open("rb") as source, Path(paths[1]).open("wb") as target:
        while chunk := source.read(CHUNK):
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())


def copy_object(uris: tuple[str, str]) -> None:
    bucket, key = split_s3(uris[1])
    source_bucket, source_key = split_s3(uris[0])
    client_for().copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": source_bucket, "Key": source_key})


def read_file(entry: Entry) -> int:
    return digest(read_in_chunks(entry.uri, 0, entry.size, None, CHUNK))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    parser.add_argument("--s3", metavar="BUCKET")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as home:
        write_savepoint(Path(home, "source"), int(arguments.gigabytes * 1e9))
        if arguments.s3:
            place = f"s3://{arguments.s3}/relocate-{uuid.uuid4().hex[:8]}"
            put_all(Path(home, "source"), join(place, "source"))
        report(place if arguments.s3 else home)


def report(home: str) -> None:
    megabytes = sum(entry.size for entry in open_store(home).list(join(home, "source"))) / 1e6
    costs, copied = measure(home)
    seconds = {way: spent.seconds for way, spent in costs.items()}
    read = {"plain read with checksum", "validate"}
    rows = [(way, f"{(2 if way in read else 1) * megabytes / s:.0f} MB/s", f"{s:.1f} s") for way, s in seconds.items()]
    print(tabulate(rows, headers=(f"{megabytes:.0f} MB of keyed state", "speed", "time")))
    print(f"relocate ÷ plain copy: {seconds['plain copy'] / seconds['relocate']:.2f}")
    print(f"validate ÷ plain read: {seconds['plain read with checksum'] / seconds['validate']:.2f}")
    if is_s3(home):
        print(f"copied by the store: {copied / 1e6 / megabytes:.1%} of the bytes")


def put_all(directory: Path, place: str) -> None:
    client = client_for()
    for path in directory.iterdir():
        bucket, key = split_s3(join(place, path.name))
        client.upload_file(str(path), bucket, key)


def measure(home: str) -> tuple[dict[str, Cost], int]:
    """Return the cost of each step and of its limits, and the number of bytes that the store itself copied.

    `home` is a directory, or a prefix in a bucket, that has the savepoint `source` and is free for results.
    """
    source, store = join(home, "source"), open_store(home)
    files = [entry for entry in store.list(source) if name(entry.uri) != "_metadata"]
    rounds: list[dict[str, Cost]] = []
    with (
        ProcessPoolExecutor(PROCESSES) as pool,
        step_tasks("benchmark", f"local[{PROCESSES}]") as tasks,
    ):
        for turn in range(1 + ROUNDS):
            costs: dict[str, Cost] = {}
            target, copy = join(home, f"target-{turn}"), join(home, f"copy-{turn}")
            request = make_request(source, target, ["6"])
            plan = make_plan(open_snapshot(request.source), request)
            claim(plan)
            pairs = [(entry.uri, join(copy, name(entry.uri))) for entry in files]
            if is_s3(home):
                costs["plain copy"] = cost(lambda pairs=pairs: side_by_side(copy_object, pairs))
            else:
                Path(copy).mkdir()
                costs["plain copy"] = cost(lambda pairs=pairs: list(pool.map(copy_file, pairs)))
            before = METER.read()
            costs["relocate"] = cost(lambda plan=plan: reshuffle_keyed_state(plan, tasks))
            copied = METER.process_since(before).plus(METER.workers_since(before)).bytes_copied_by_store
            redistribute_operator_state(plan, tasks)
            compared = [*files, *(entry for entry in store.list(target) if name(entry.uri) != "_metadata")]
            costs["plain read with checksum"] = cost(lambda compared=compared: list(pool.map(read_file, compared)))
            costs["validate"] = cost(lambda plan=plan: validate_coverage(plan, tasks))
            for place in (target, copy, f"{target}.rescale"):
                store.delete([entry.uri for entry in store.list(place)])
            rounds.append(costs)
    return {way: median_cost([costs[way] for costs in rounds[1:]]) for way in costs}, copied


if __name__ == "__main__":
    main()

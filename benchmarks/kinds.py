"""RocksDB to canonical: MB of source per CPU second, beside a plain copy and a bare scan of the same databases.

    python benchmarks/kinds.py [--gigabytes 1] [--value-size 1000] [--states 1]

The first case keeps the max parallelism, so key groups stay and nothing is shuffled; the second goes from 128 to 1000.
The scan visits all rows with RocksDB's own iterators, in one process. *Read in blocks* is the part of a step that
reads: a child process copies all rows into blocks. CPU time is user and system time of all processes in the second of
two rounds; their start does not count.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types
from tabulate import tabulate

from big_databases import write_databases
from big_savepoint import write_savepoint
from processes import Cost, cost, megabytes_in, peak_memory
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.processes import process_tasks
from rescale.flink.key_groups import KeyGroupRange
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Format
from rescale.rocksdb.engine.directory import DatabaseDirectory, fetched_database
from rescale.rocksdb.engine.guarded_database import guarded_database
from rescale.rocksdb.engine.open_database import OpenDatabase, opened_database
from rescale.rocksdb.engine.scan import StateRows
from rescale.runstate.claim import claim
from rescale.snapshot.databases.live_tables import listed_files
from rescale.snapshot.reading.opening import open_snapshot

MAXIMUM = 128
PROCESSES = 2
PARALLELISM = 6

_valid: Any = types.ExternalFunction("rocksdb_iter_valid", types.uint8(types.int64))
_next: Any = types.ExternalFunction("rocksdb_iter_next", types.void(types.int64))
_key: Any = types.ExternalFunction("rocksdb_iter_key", types.int64(types.int64, types.int64))
_value: Any = types.ExternalFunction("rocksdb_iter_value", types.int64(types.int64, types.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--value-size", type=int, default=1000, help="bytes of each value")
    parser.add_argument("--states", type=int, default=1, help="how many states share the keys")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        home = Path(folder)
        size = int(arguments.gigabytes * 1e9)
        write_savepoint(home / "canonical", size, value_size=arguments.value_size, states=arguments.states)
        write_databases(home / "canonical", home / "source")
        shutil.rmtree(home / "canonical")
        report(home / "source")


@njit
def walk(iterator: int, length: npt.NDArray[np.int64]) -> int:
    """Visit every row of an iterator; return the bytes of all keys and values.

    `length` is an array of one number, into which RocksDB writes the length of a key or value.
    """
    total = 0
    while _valid(iterator):
        _key(iterator, length.ctypes.data)
        total += length[0]
        _value(iterator, length.ctypes.data)
        total += length[0]
        _next(iterator)
    return total


def scan(source: Path) -> None:
    for opened in opened_databases(source):
        walk_rows(opened)


def read_blocks(source: Path) -> None:
    for directory, states, key_groups in fetched_databases(source):
        with guarded_database(directory, states) as database:
            for state_id, state in enumerate(states):
                for _ in database.read(StateRows(MAXIMUM, state, state_id, key_groups)):
                    pass


class Opened(NamedTuple):
    """A database of a snapshot, open for reading; its files lie in `directory`."""

    directory: Path
    database: OpenDatabase
    states: list[str]


def opened_databases(snapshot: Path) -> Iterator[Opened]:
    """Fetch and open the RocksDB databases of a snapshot, one at a time."""
    for directory, states, _ in fetched_databases(snapshot):
        with opened_database(directory, states) as opened:
            yield Opened(directory.path, opened, states)


def fetched_databases(snapshot: Path) -> Iterator[tuple[DatabaseDirectory, list[str], KeyGroupRange]]:
    """Fetch the RocksDB databases of a snapshot, one at a time; yield each with its state names and key groups."""
    opened_snapshot = open_snapshot(str(snapshot))
    for operator in opened_snapshot.operators:
        for database in operator.databases:
            assert database.parsed is not None
            named_extents = [(file.name, file.extent) for file in database.files]
            files = listed_files(opened_snapshot.contents, named_extents)
            with fetched_database(files, Path(tempfile.gettempdir())) as directory:
                yield directory, [state.name for state in database.parsed.states], database.key_groups


def walk_rows(opened: Opened) -> None:
    for state in opened.states:
        with opened.database.rows(state, b"", b"\xff") as rows:
            walk(rows.address, np.empty(1, np.int64))
            rows.check()


def report(source: Path) -> None:
    costs, peaks = measure(source)
    megabytes = megabytes_in(source)
    per_cpu = {what: megabytes / spent.cpu for what, spent in costs.items()}
    rows = [
        (what, f"{per_cpu[what]:.0f}", f"{megabytes / spent.seconds:.0f}", f"{spent.seconds:.1f} s")
        for what, spent in costs.items()
    ]
    print(tabulate(rows, headers=(f"{megabytes:.0f} MB of RocksDB", "MB per CPU-second", "MB/s", "time")))
    for step in ("read in blocks", "128 → 128, reshuffle", "128 → 1000, reshuffle"):
        print(f"{step} ÷ bare scan: {per_cpu[step] / per_cpu['bare scan']:.2f}")
    print("peak resident MB:", ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(peaks.items())))


def measure(source: Path) -> tuple[dict[str, Cost], dict[str, float]]:
    """Return the cost of each step and of its limits, and peak memory in MB."""
    home = source.parent
    costs: dict[str, Cost] = {}
    with process_tasks(PROCESSES) as tasks:
        for turn in range(2):
            costs["plain copy"] = cost(partial(shutil.copytree, source, home / "copy"))
            shutil.rmtree(home / "copy")
            costs["bare scan"] = cost(partial(scan, source))
            costs["read in blocks"] = cost(partial(read_blocks, source))
            for way, maximum in (("128 → 128", str(MAXIMUM)), ("128 → 1000", "1000")):
                target = home / f"target-{turn}-{maximum}"
                shape = {"parallelism": [str(PARALLELISM)], "max_parallelism": [maximum]}
                plan = prepare(make_request(str(source), str(target), **shape, format=Format.CANONICAL)).plan
                claim(plan)
                costs[f"{way}, reshuffle"] = cost(partial(reshuffle_keyed_state, plan, tasks))
                redistribute_operator_state(plan, tasks)
                costs[f"{way}, validate"] = cost(partial(validate_coverage, plan, tasks))
                shutil.rmtree(target)
        return costs, peak_memory()


if __name__ == "__main__":
    main()

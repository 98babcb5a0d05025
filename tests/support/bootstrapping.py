"""Reads and writes savepoints by the State Processor API, which real Flink loads if `Flink` gets a `processor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oracle.harness import Flink, Job

INTO_FILES = {"state.storage.fs.memory-threshold": "0", "execution.checkpointing.data-inline-threshold": "0"}
"""Options that put all state into files, and none into `_metadata`."""


def bootstrapped(users: int, max_parallelism: int) -> Job:
    """Return a job of parallelism 2 whose whole state can be bootstrapped."""
    return Job("bootstrapped", 2, {"seed": 7, "users": users, "only_users": 1}, max_parallelism=max_parallelism)


def write_savepoint(flink: Flink, job: Job, path: Path, base: Path | None = None) -> None:
    """Write the state of `job`; with a `base`, write only broadcast state, and take the rest from that savepoint."""
    places = {"written": path.as_uri()} | ({"base": base.as_uri()} if base else {})
    flink.run(job.with_(scenario="clicks.Bootstrap", configuration={**INTO_FILES, **places}))


def read_savepoint(flink: Flink, job: Job, path: Path) -> list[str]:
    """Return a line for every value, timer and element of a savepoint of `job`, sorted.

    The savepoint is read with the heap backend. With RocksDB, the State Processor API 2.3.0 returns some keys twice if
    a key group takes two bytes, even from savepoints that it wrote itself.
    """
    places = {"read": path.as_uri()}
    return sorted(flink.run(job.with_(scenario="clicks.Read", backend="hashmap", configuration=places)))


def expected_lines(flink: Flink, job: Job) -> list[str]:
    """Return the lines that `read_savepoint` must return for a savepoint of `job`."""
    return sorted(_expected_lines(flink, job))


def _expected_lines(flink: Flink, job: Job) -> Iterator[str]:
    expected = flink.expected(job)
    for state, values in expected["keyed"].items():
        yield from (f"{state} of {key}: {value}" for key, value in values.items())
    for states in expected["split"].values():
        for state, subtasks in states.items():
            yield from (f"{state}: {element}" for elements in subtasks for element in elements)
    for state, elements in (expected["union"] | expected["broadcast"]).items():
        yield from (f"{state}: {element}" for element in elements)

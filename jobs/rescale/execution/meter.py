"""What a step has done, in numbers, for whoever watches runs.

It is counted where it is done: requests by the store, records and stages here. What Spark's workers have counted comes
back with their tasks and is added to what the driver has; a task that was lost takes its numbers along.
"""

from __future__ import annotations

import re
import resource
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from rescale.storage.s3.s3_requests import REQUESTS


@dataclass(frozen=True)
class Counted:
    """Records looked at one by one, requests to S3 by what they ask for, and those of them that were a further try.

    `copied_by_store` are bytes that S3 copied by itself, and that passed no process. `lost_tasks` are tries of Spark's
    tasks that did not come to their end; `worst_memory` is what the largest of the processes had in memory meanwhile,
    in bytes.
    """

    records: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    tried_again: int = 0
    copied_by_store: int = 0
    lost_tasks: int = 0
    worst_memory: int = 0

    def plus(self, other: Counted) -> Counted:
        return Counted(
            self.records + other.records,
            self.requests + other.requests,
            self.tried_again + other.tried_again,
            self.copied_by_store + other.copied_by_store,
            self.lost_tasks + other.lost_tasks,
            max(self.worst_memory, other.worst_memory),
        )


@dataclass(frozen=True)
class Stage:
    """A part of a step that worked through bytes; `began` is when, in seconds of the monotonic clock."""

    name: str
    bytes: int
    seconds: float
    began: float


@dataclass(frozen=True)
class Reading:
    """Of a meter, at one instant; of what it keeps in lists, how many there were."""

    own: Counted
    workers: int
    stages: int
    peaks: int


class Meter:
    """Counts from the start of the process on; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records = 0
        self._workers: list[Counted] = []
        self._stages: list[Stage] = []
        self._peaks: list[int] = []

    def saw(self, records: int) -> None:
        with self._lock:
            self._records += records

    def add(self, of_workers: Counted) -> None:
        with self._lock:
            self._workers.append(of_workers)

    def ended(self, stage: str, done: int, seconds: float) -> None:
        """A stage that worked through so many bytes is over, now."""
        with self._lock:
            self._stages.append(Stage(stage, done, seconds, time.monotonic() - seconds))

    def stages_after(self, number: int) -> list[Stage]:
        """Those that ended after so many others."""
        with self._lock:
            return self._stages[number:]

    def read(self) -> Reading:
        """From here on memory is looked at anew; a reading that was taken before loses nothing by that."""
        with self._lock:
            self._peaks.append(_peak_of_memory())
            _forget_peak()
            own = Counted(self._records, REQUESTS.by_kind, REQUESTS.tried_again, REQUESTS.bytes_copied)
            return Reading(own, len(self._workers), len(self._stages), len(self._peaks))

    def own_since(self, before: Reading) -> Counted:
        """Of this process alone."""
        now = self.read().own
        with self._lock:
            return Counted(
                now.records - before.own.records,
                now.requests - before.own.requests,
                now.tried_again - before.own.tried_again,
                now.copied_by_store - before.own.copied_by_store,
                worst_memory=max(self._peaks[before.peaks :]),
            )

    def workers_since(self, before: Reading) -> Counted:
        """Of all Spark's workers."""
        with self._lock:
            return reduce(Counted.plus, self._workers[before.workers :], Counted())

    def metrics_since(self, before: Reading, seconds: float) -> dict[str, Any]:
        """As JSON values; `bytes` are what all stages worked through, be it read or written."""
        own, workers = self.own_since(before), self.workers_since(before)
        both, stages = own.plus(workers), self.stages_after(before.stages)
        done = sum(stage.bytes for stage in stages)
        return {
            "bytes": done,
            "bytes_copied_by_store": both.copied_by_store,
            "records": both.records,
            "mb_per_second": _rate(done, seconds),
            "stages": [
                {
                    "stage": stage.name,
                    "bytes": stage.bytes,
                    "seconds": round(stage.seconds, 3),
                    "mb_per_second": _rate(stage.bytes, stage.seconds),
                }
                for stage in stages
            ],
            "store_requests": dict(sorted(both.requests.items())),
            "retries": {"requests": both.tried_again, "tasks": both.lost_tasks},
            "worst_memory_bytes": {"driver": own.worst_memory, "workers": workers.worst_memory},
        }


METER = Meter()
"""That of this process."""


def _peak_of_memory() -> int:
    """The most that this process had in memory since that was last forgotten, in bytes."""
    with suppress(OSError):
        if found := re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE):
            return int(found[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _forget_peak() -> None:
    """`CLEAR_REFS_MM_HIWATER_RSS` of proc(5). Where it may not be, figures of memory are of the process's life."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _rate(done: int, seconds: float) -> float:
    return round(done / 1e6 / seconds, 3) if seconds else 0.0

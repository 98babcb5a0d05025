"""Counters of a step's work: records, stages, requests to the store, memory.

`storage` counts requests; this module counts records and stages. A task returns the counts of its worker, which are
added to the driver's counts. The counts of a lost task are lost.
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

from rescale.report.step_results import Retries, StageMetrics, StepMetrics, WorstMemory
from rescale.storage.s3.s3_requests import REQUESTS


@dataclass(frozen=True)
class StepCounters:
    """Counts of the work of one or more processes.

    `record_count` counts records that were read one by one, `requests_by_kind` requests to S3, and `repeat_count`
    requests that were repeated. `bytes_copied_by_store` counts bytes that S3 copied itself. `lost_task_count` counts
    failed attempts of tasks. `peak_bytes` is the peak memory of the largest process.
    """

    record_count: int = 0
    requests_by_kind: Counter[str] = field(default_factory=Counter)
    repeat_count: int = 0
    bytes_copied_by_store: int = 0
    lost_task_count: int = 0
    peak_bytes: int = 0

    def plus(self, other: StepCounters) -> StepCounters:
        return StepCounters(
            self.record_count + other.record_count,
            self.requests_by_kind + other.requests_by_kind,
            self.repeat_count + other.repeat_count,
            self.bytes_copied_by_store + other.bytes_copied_by_store,
            self.lost_task_count + other.lost_task_count,
            max(self.peak_bytes, other.peak_bytes),
        )


@dataclass(frozen=True)
class Stage:
    """A phase of a step, in which `bytes` were processed; `start_time` is in seconds of the monotonic clock."""

    name: str
    bytes: int
    seconds: float
    start_time: float


@dataclass(frozen=True)
class Reading:
    """State of a meter at one instant: the counts of this process, and the lengths of the meter's lists."""

    process_counters: StepCounters
    worker_count: int
    stage_count: int
    peak_count: int


class Meter:
    """Counts records and stages from the start of the process on; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records = 0
        self._workers: list[StepCounters] = []
        self._stages: list[Stage] = []
        self._peaks: list[int] = []

    def count_records(self, record_count: int) -> None:
        with self._lock:
            self._records += record_count

    def add_worker(self, counters: StepCounters) -> None:
        with self._lock:
            self._workers.append(counters)

    def add_stage(self, stage: str, bytes_done: int, seconds: float) -> None:
        """Record that a stage that processed `bytes_done` bytes has just ended."""
        with self._lock:
            self._stages.append(Stage(stage, bytes_done, seconds, time.monotonic() - seconds))

    def stages_after(self, stage_count: int) -> list[Stage]:
        """Return the stages that ended after the first `stage_count` ones."""
        with self._lock:
            return self._stages[stage_count:]

    def read(self) -> Reading:
        """Return the current state, and restart the measurement of peak memory; earlier readings stay valid."""
        with self._lock:
            self._peaks.append(_peak_memory_bytes())
            _reset_peak()
            counters = StepCounters(self._records, REQUESTS.by_operation, REQUESTS.repeat_count, REQUESTS.bytes_copied)
            return Reading(counters, len(self._workers), len(self._stages), len(self._peaks))

    def process_since(self, before: Reading) -> StepCounters:
        """Return the counts of this process since a reading."""
        counters = self.read().process_counters
        with self._lock:
            return StepCounters(
                counters.record_count - before.process_counters.record_count,
                counters.requests_by_kind - before.process_counters.requests_by_kind,
                counters.repeat_count - before.process_counters.repeat_count,
                counters.bytes_copied_by_store - before.process_counters.bytes_copied_by_store,
                peak_bytes=max(self._peaks[before.peak_count :]),
            )

    def workers_since(self, before: Reading) -> StepCounters:
        """Return the sum of the counts of all workers since a reading."""
        with self._lock:
            return reduce(StepCounters.plus, self._workers[before.worker_count :], StepCounters())

    def metrics_since(self, before: Reading, seconds: float) -> StepMetrics:
        """Return all counts since a reading."""
        driver, workers = self.process_since(before), self.workers_since(before)
        all_counters, stages = driver.plus(workers), self.stages_after(before.stage_count)
        total_bytes = sum(stage.bytes for stage in stages)
        return StepMetrics(
            bytes=total_bytes,
            bytes_copied_by_store=all_counters.bytes_copied_by_store,
            records=all_counters.record_count,
            mb_per_second=_mb_per_second(total_bytes, seconds),
            stages=tuple(
                StageMetrics(
                    stage.name, stage.bytes, round(stage.seconds, 3), _mb_per_second(stage.bytes, stage.seconds)
                )
                for stage in stages
            ),
            store_requests=dict(sorted(all_counters.requests_by_kind.items())),
            retries=Retries(all_counters.repeat_count, all_counters.lost_task_count),
            worst_memory_bytes=WorstMemory(driver.peak_bytes, workers.peak_bytes),
        )


METER = Meter()


def _peak_memory_bytes() -> int:
    """Return this process's peak memory in bytes, since `_reset_peak` or, if that is not permitted, since its start."""
    with suppress(OSError):
        if match := re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE):
            return int(match[1]) * 1024
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes


def _reset_peak() -> None:
    """Reset the peak memory of this process (proc(5), `CLEAR_REFS_MM_HIWATER_RSS`), if the system permits it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _mb_per_second(byte_count: int, seconds: float) -> float:
    return round(byte_count / 1e6 / seconds, 3) if seconds else 0.0

"""Estimates how long a run takes, and how long Flink restores, from bytes and rates.

`benchmarks/` measured the rates of a run (1 GB, two cores, a local disk with a warm cache). Flink's rates come from
restoring 1 GB of RocksDB state at other parallelisms on the same machine, and the rates of S3 from the documentation of
AWS. The estimates tell seconds from minutes and minutes from hours, and which of two alternatives takes less time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescale.flink.slot import Slot
from rescale.insight.flink_restore import OperatorRestore
from rescale.insight.record_counts import USUAL_RECORD_BYTES
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.plan.work_class import WorkClass
from rescale.planning.little_work import LITTLE_BYTES
from rescale.storage.locations import is_s3

MB = 1_000_000

CORES = 2
"""Cores of the machine that does the work; the time to move and to compare is divided by them."""

PROCESS_START_SECONDS, WORKERS_START_SECONDS = 0.25, 0.25
"""Seconds until the process of a step starts its work, and until the workers of a step start their work.

The first step with more than `LITTLE_BYTES` of work starts workers, and later steps use them. Bytes that are only
copied between local files do not count. `rescale run` has one process for all steps; it plans and publishes in the time
in which the processes of the other steps would start.
"""


class Rates(NamedTuple):
    """Rates at which one core moves state, and compares it with the result, in bytes of the source.

    Each record takes as much additional time as `bytes_per_moved_record` or `bytes_per_compared_record` bytes.
    """

    bytes_moved_per_second: int
    bytes_compared_per_second: int
    bytes_per_moved_record: int = 0
    bytes_per_compared_record: int = 0

    def seconds_to_move(self, size: int, record_count: int) -> float:
        return (size + record_count * self.bytes_per_moved_record) / self.bytes_moved_per_second

    def seconds_to_compare(self, size: int, record_count: int) -> float:
        return (size + record_count * self.bytes_per_compared_record) / self.bytes_compared_per_second


WHOLE_KEY_GROUP_RATES = Rates(900 * MB, 2500 * MB)
"""Rates of key groups that are copied whole, and of elements of operator state (`benchmarks/relocate.py`)."""

RECORD_RATES = Rates(450 * MB, 1080 * MB, 100, 150)
"""Rates of records in key-group streams, at another max parallelism (`benchmarks/rehash.py`, `real_job.py`)."""

ORDERED_ROW_RATES, ROW_RATES = Rates(500 * MB, 380 * MB, 100, 160), Rates(370 * MB, 380 * MB, 200, 160)
"""Rates of rows of databases if the max parallelism stays, and if it changes (`benchmarks/kinds.py`, `real_job.py`)."""

_SECONDS_PER_KEY = 8e-6
"""Seconds of CPU time for each key in the files that a round reads, in addition to the time for the bytes of the files.

Each entry is decoded twice, and each key is looked up in the result for the proof (`benchmarks/live.py`).
"""

SECONDS_PER_DIRECTORY, SECONDS_PER_NEW_DIRECTORY = 0.04, 0.03
"""Seconds of CPU time to read MANIFESTs and open databases.

The first is for each RocksDB directory of the job, in both checkpoints together. The second is for each directory of
the result, in base and result together.
"""

S3_CONNECTION_RATE = 85 * MB
"""Bytes per second that an S3 connection sends or receives (Amazon S3 performance guidelines: 85 to 90 MB/s)."""

PARALLEL_DOWNLOADS = 4
"""Number of files that a subtask downloads at once (`state.backend.rocksdb.checkpoint.transfer.thread.num`)."""

LOCAL_DISK_RATE = 500 * MB
"""Bytes that a subtask reads in a second from a disk."""

RECORD_PUT_RATE = 85 * MB
"""Bytes of records that a subtask puts into RocksDB per second, measured with Flink 1.20 by restoring 1 GB at half and
at 1.5 times the parallelism."""


@dataclass(frozen=True)
class StepSeconds:
    """Estimated seconds of a step, its start included."""

    step: str
    seconds: float


@dataclass(frozen=True)
class FormatRestore:
    """Estimate of how Flink restores the new shape from a result in one format.

    All subtasks together read `read` bytes, and insert `by_record` bytes of records into their backends one by one.
    `chosen` is true for the format of the planned result.
    """

    format: str
    read: int
    by_record: int
    seconds: float
    chosen: bool


@dataclass(frozen=True)
class Durations:
    """Estimated seconds of the run, and of Flink restoring its result.

    The job is down during both, and during its own start. `flink` is the time in which Flink itself would restore the
    source in the new shape; None if Flink refuses the shape. `steps` add up to `run`. `formats` has an estimate for
    each format that the result could have.
    """

    run: float
    restore: float
    flink: float | None
    steps: tuple[StepSeconds, ...]
    formats: tuple[FormatRestore, ...]


def durations(
    plan: Plan, flink_restores: Iterable[OperatorRestore] | None, record_count_by_id: Mapping[str, int] | None = None
) -> Durations:
    """Return the estimates for a plan.

    `flink_restores` says how Flink itself would restore the operators of the source; None if Flink refuses the shape.
    `record_count_by_id` has the known numbers of records by operator id.
    """
    steps = tuple(_step_seconds(plan, record_count_by_id or {}))
    return Durations(
        run=sum(step.seconds for step in steps),
        restore=_slowest_restore_seconds(plan, [not operator.is_in_rocksdb for operator in plan.operators]),
        flink=None if flink_restores is None else restore_seconds(flink_restores, is_on_s3=is_s3(plan.source)),
        steps=steps,
        formats=tuple(_format_restores(plan)),
    )


def _step_seconds(plan: Plan, record_count_by_id: Mapping[str, int]) -> Iterator[StepSeconds]:
    """Yield the estimates of moving keyed state, moving operator state, and comparing source and result."""
    keyed_seconds = elements_seconds = compare_seconds = changes_seconds = 0.0
    for operator in plan.operators:
        rekeyed_bytes = operator.rekeyed_bytes
        dealt_bytes = operator.bytes_of(Slot.OPERATOR, Slot.RAW_OPERATOR)
        copied_bytes = operator.bytes_of(*Slot) - rekeyed_bytes - dealt_bytes
        rates, record_count = (
            rates_of(operator),
            record_count_by_id.get(operator.operator_id, rekeyed_bytes // USUAL_RECORD_BYTES),
        )
        keyed_seconds += copied_bytes / WHOLE_KEY_GROUP_RATES.bytes_moved_per_second + rates.seconds_to_move(
            rekeyed_bytes, record_count
        )
        elements_seconds += dealt_bytes / WHOLE_KEY_GROUP_RATES.bytes_moved_per_second
        if operator.rekeying is not None and operator.is_continued:
            changes_seconds += change_seconds(
                record_count, len(operator.rekeying.changes), len(operator.rekeying.bases)
            )
        compare_seconds += (
            copied_bytes + dealt_bytes
        ) / WHOLE_KEY_GROUP_RATES.bytes_compared_per_second + rates.seconds_to_compare(rekeyed_bytes, record_count)
    dealt_bytes = plan.bytes_of(Slot.OPERATOR, Slot.RAW_OPERATOR)
    rekeyed_bytes = sum(rekeying.work_bytes for operator in plan.operators for rekeying in operator.rekeyings)
    s3_side_count = sum([is_s3(plan.source), is_s3(plan.target)])
    transfer_seconds_per_byte = s3_side_count / S3_CONNECTION_RATE
    has_workers = False
    for step, work_seconds, size, bytes_in_python in (
        ("reshuffle", keyed_seconds + changes_seconds / 2, plan.bytes_moved - dealt_bytes, rekeyed_bytes),
        ("redistribute", elements_seconds, dealt_bytes, 0),
        ("validate", compare_seconds + changes_seconds / 2, plan.bytes_moved, rekeyed_bytes + dealt_bytes),
    ):
        starts_workers = not has_workers and (size if s3_side_count else bytes_in_python) > LITTLE_BYTES
        has_workers = has_workers or starts_workers
        start_seconds = PROCESS_START_SECONDS + (WORKERS_START_SECONDS if starts_workers else 0)
        yield StepSeconds(step, start_seconds + (work_seconds + transfer_seconds_per_byte * size) / CORES)


def change_seconds(key_count: int, directory_count: int, new_directory_count: int) -> float:
    """Return the CPU time of a round, without the time for the bytes that it reads.

    `key_count` counts the keys in the files that the round reads, `directory_count` the source's RocksDB directories
    with such files, and `new_directory_count` the directories of the base, and so of the result.
    """
    return (
        key_count * _SECONDS_PER_KEY
        + directory_count * SECONDS_PER_DIRECTORY
        + new_directory_count * SECONDS_PER_NEW_DIRECTORY
    )


def rates_of(operator: OperatorPlan) -> Rates:
    """Return the rates of an operator's state whose records are read one by one."""
    if operator.rekeying is None or not (operator.rekeying.databases or operator.rekeying.changes):
        return RECORD_RATES
    return ORDERED_ROW_RATES if operator.work is WorkClass.RELOCATE else ROW_RATES


def restore_seconds(restores: Iterable[OperatorRestore], *, is_on_s3: bool) -> float:
    """Return the seconds until Flink's slowest slot has restored its keyed state.

    Subtasks of several operators share a slot if they have the same number.
    """
    seconds_by_subtask: dict[int, float] = {}
    for restore in restores:
        for subtask in restore.subtasks:
            seconds_needed = subtask.read / _bytes_read_per_second(is_on_s3) + subtask.by_record / RECORD_PUT_RATE
            seconds_by_subtask[subtask.subtask] = seconds_by_subtask.get(subtask.subtask, 0.0) + seconds_needed
    return max(seconds_by_subtask.values(), default=0.0)


def _format_restores(plan: Plan) -> Iterator[FormatRestore]:
    """Yield the estimate for a result with records, and for a result with RocksDB files, which are opened unchanged."""
    keyed_operators = [operator for operator in plan.operators if any(operator.new_keyed_bytes)]
    if not keyed_operators:
        return
    size = sum(sum(operator.new_keyed_bytes) for operator in keyed_operators)
    has_records = any(not operator.is_in_rocksdb for operator in keyed_operators)
    for name, inserts_records in (("records", True), ("RocksDB's own files", False)):
        seconds = _slowest_restore_seconds(plan, [inserts_records] * len(plan.operators))
        yield FormatRestore(name, size, size if inserts_records else 0, seconds, chosen=inserts_records is has_records)


def _slowest_restore_seconds(plan: Plan, inserts_records: Sequence[bool]) -> float:
    """Return the seconds until the slowest subtask has read its state and inserted its records.

    `inserts_records` tells for each operator of the plan whether Flink inserts its records one by one.
    """
    seconds_of_subtasks = [0.0] * max((operator.new_parallelism for operator in plan.operators), default=0)
    for operator, is_inserted in zip(plan.operators, inserts_records, strict=True):
        seconds_per_byte = 1 / _bytes_read_per_second(is_s3(plan.target)) + (1 / RECORD_PUT_RATE if is_inserted else 0)
        for subtask, size in enumerate(operator.new_keyed_bytes):
            seconds_of_subtasks[subtask] += size * seconds_per_byte
    return max(seconds_of_subtasks, default=0.0)


def _bytes_read_per_second(is_on_s3: bool) -> int:
    return PARALLEL_DOWNLOADS * S3_CONNECTION_RATE if is_on_s3 else LOCAL_DISK_RATE

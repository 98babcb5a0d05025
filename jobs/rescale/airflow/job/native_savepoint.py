"""Check that a native savepoint of a running job would hold all of its state and could be rescaled, before taking one.

With RocksDB, a native savepoint lacks timers that the job keeps on the heap (`requiresLegacySynchronousTimerSnapshots`
of `RocksDBKeyedStateBackend` is false for savepoints). Flink's REST API does not show where a job keeps its timers, but
a checkpoint does: timers on the heap are raw keyed state in it. An operator registers its timers when it opens, so a
checkpoint shows them even if none is set.

With the hashmap backend, a native savepoint holds everything. But if records have to be read, for another max
parallelism or another format, their serializers must be known. A checkpoint shows the serializers, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from rescale.airflow.job.canonical_savepoint import USE_RETAINED_CHECKPOINT, canonical_obstacle
from rescale.airflow.job.job_shape import changes_max_parallelism
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.flink.state_meta_info import StateKind
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import Job
from rescale.planning.refusals import refuse_undelimited_entries
from rescale.planning.request.operator_shapes import new_shapes
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Format
from rescale.planning.request.result_kind import is_rewritten_by_record
from rescale.planning.request.surgery import resolve_operator_surgery
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import apply_surgery
from rescale.text.errors import RequestError, RescaleError

_ROCKSDB_BACKENDS = ("EmbeddedRocksDBStateBackend", "RocksDBStateBackend")
_HEAP_BACKENDS = ("HashMapStateBackend", "FsStateBackend", "MemoryStateBackend")
"""Names of state backends (`StateBackend.getName`): the current one, then deprecated ones, which Flink 2 removed."""

_CHOOSE_CANONICAL = 'choose "canonical" as the format of the savepoint'


def check_native_savepoint(
    flink: Flink, job: Job, request: Request, latest_checkpoint: Snapshot | UnreadableCheckpoint
) -> str:
    """Return a clause on why a native savepoint loses nothing; `latest_checkpoint` is the job's latest checkpoint.

    Raises `RequestError` if something would be lost, could not be rescaled, or cannot be checked.
    """
    backend = flink.state_backend(job.job_id)
    if backend is None:
        raise _unknown_error(flink, job, "the job has no checkpoints")
    if backend.name in _HEAP_BACKENDS and not backend.has_changelog:
        evidence_clause = f"{backend.name} writes timers like all other state"
        if request.format is Format.KEEP and not changes_max_parallelism(job, request):
            return evidence_clause
        checkpoint = _readable_checkpoint(flink, job, request, latest_checkpoint)
        _refuse_unreadable_records(flink, job, request, checkpoint)
        return f"{evidence_clause}, and its records can be read, as {checkpoint.directory} shows"
    if backend.name not in _ROCKSDB_BACKENDS or backend.has_changelog:
        raise RequestError(
            "native savepoints of this state backend are not supported",
            operator=job.name,
            expected="RocksDB or the hashmap backend, without a changelog",
            found=f"{backend.name or 'an unknown backend'}{' with a changelog' if backend.has_changelog else ''}",
            advice=_alternative_advice(flink, job),
        )
    checkpoint = _readable_checkpoint(flink, job, request, latest_checkpoint)
    if heap_operator_labels := [
        operator.label for operator in checkpoint.operators if _may_have_timers_on_heap(operator)
    ]:
        raise RequestError(
            "a native savepoint would lose timers of this job, which keeps them on the heap, outside RocksDB",
            path=checkpoint.metadata_uri,
            operator=", ".join(heap_operator_labels),
            expected="timers in RocksDB (state.backend.rocksdb.timer-service.factory: ROCKSDB)",
            found="raw keyed state in the latest checkpoint that is timers, or cannot be distinguished from timers",
            advice=f"{_alternative_advice(flink, job)}: it holds all timers",
        )
    timer_operator_labels = [operator.label for operator in checkpoint.operators if any(_rocksdb_timer_names(operator))]
    timers_clause = (
        f"those of {', '.join(timer_operator_labels)} are in RocksDB"
        if timer_operator_labels
        else "no operator has any"
    )
    return f"{backend.name} has no timers on the heap, {timers_clause}, as {checkpoint.directory} shows"


def _alternative_advice(flink: Flink, job: Job) -> str:
    """Return the advice to use another snapshot, which holds everything and can be rescaled to every shape."""
    is_canonical_possible = canonical_obstacle(flink, job) is None
    return (
        _CHOOSE_CANONICAL
        if is_canonical_possible
        else f"Flink cannot take a canonical one either: {USE_RETAINED_CHECKPOINT}"
    )


def _refuse_unreadable_records(flink: Flink, job: Job, request: Request, checkpoint: Snapshot) -> None:
    """Raise `RequestError` if the request needs every record of the state, and records cannot be read.

    In the native format of the hashmap backend, records can be separated only if all serializers are known.
    """
    shapes = new_shapes(checkpoint.operators, request)
    for operator in checkpoint.operators:
        try:
            if is_rewritten_by_record(operator, shapes[operator.entry.operator_id], request.format):
                refuse_undelimited_entries(operator)
        except RescaleError as error:
            raise RequestError(
                "the request needs every record of the state, and records of a native savepoint could not be read",
                path=checkpoint.metadata_uri,
                operator=operator.label,
                state=error.state,
                expected=error.expected,
                found=f"{error.what}{'' if error.found is None else f': {error.found}'}",
                advice=_alternative_advice(flink, job),
            ) from None


def _readable_checkpoint(
    flink: Flink, job: Job, request: Request, checkpoint: Snapshot | UnreadableCheckpoint
) -> Snapshot:
    """Return the checkpoint without the state that the request drops. Raises `RequestError` if it cannot be read."""
    if isinstance(checkpoint, UnreadableCheckpoint):
        raise checkpoint.transient_error or _unknown_error(flink, job, checkpoint.reason, checkpoint.place)
    return apply_surgery(checkpoint, resolve_operator_surgery(checkpoint.operators, {}, request.surgery.drops))


def _unknown_error(flink: Flink, job: Job, reason: str, place: str | None = None) -> RequestError:
    return RequestError(
        "it is unknown whether a native savepoint of this job would be complete and readable",
        path=place,
        operator=job.name,
        expected="a readable checkpoint, which shows where timers are and how records are written",
        found=reason,
        advice=f"{_alternative_advice(flink, job)}; or let the job write checkpoints where workers can read them (for "
        'files in other directories, fill in "More places of state")',
    )


def _may_have_timers_on_heap(operator: Operator) -> bool:
    """Return whether the operator has raw keyed state that is, or may be, timers."""
    return any(stream.timer_services is None or stream.timer_services for stream in operator.raw_keyed)


def _rocksdb_timer_names(operator: Operator) -> Iterator[str]:
    for database in operator.databases:
        for state in database.parsed.states if database.parsed is not None else ():
            if state.kind is StateKind.PRIORITY_QUEUE:
                yield state.name

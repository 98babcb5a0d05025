"""Whether a native savepoint of a running job would hold all of its state, and can be rescaled: found out before one is
taken.

Of RocksDB it lacks the timers that are kept on the heap (`requiresLegacySynchronousTimerSnapshots` of
`RocksDBKeyedStateBackend` is false for savepoints), and where a job keeps its timers Flink's REST API does not tell. A
checkpoint does: it has those on the heap as raw keyed state. An operator asks for its timers when it opens, so a
checkpoint knows of them even if none is set.

Of the hashmap backend it holds everything, but where records are to be read, for another max parallelism or in another
format, their serializers must be known. A checkpoint tells these, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from rescale.errors import RequestError, RescaleError
from rescale.flink.state_meta_info import StateKind
from rescale.orchestration.flink.rest import Flink
from rescale.orchestration.flink.running_job import Job
from rescale.orchestration.job.canonical_savepoint import RETAINED, why_none_is_taken
from rescale.orchestration.job.job_shape import changes_max_parallelism
from rescale.orchestration.job.latest_checkpoint import Unread
from rescale.planning.asked.asked_surgery import operator_surgery
from rescale.planning.asked.operator_shapes import new_shapes
from rescale.planning.asked.request import Format, Request
from rescale.planning.asked.result_kind import goes_by_record
from rescale.planning.heap_refusals import refuse_heap
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import operated

_ROCKSDB = ("EmbeddedRocksDBStateBackend", "RocksDBStateBackend")
_HEAP = ("HashMapStateBackend", "FsStateBackend", "MemoryStateBackend")
"""Names as `StateBackend.getName` gives them; the later ones are deprecated, and gone in Flink 2."""

_CANONICAL = 'say "canonical" under "Format of the savepoint"'


def why_nothing_is_lost(flink: Flink, job: Job, request: Request, latest: Snapshot | Unread) -> str:
    """In a clause, what shows it; `RequestError` if something would be lost, could not be rescaled, or nobody knows.

    `latest` is the job's latest checkpoint.
    """
    backend = flink.state_backend(job.job_id)
    if backend is None:
        raise _unknown(flink, job, "Flink makes no checkpoints of it")
    if backend.name in _HEAP and not backend.changelog:
        whole = f"{backend.name} writes timers as it writes all other state"
        if request.format is Format.KEEP and not changes_max_parallelism(job, request):
            return whole
        checkpoint = _read(flink, job, request, latest)
        _refuse_unread(flink, job, request, checkpoint)
        return f"{whole}, and its records can be read, as {checkpoint.directory} shows"
    if backend.name not in _ROCKSDB or backend.changelog:
        raise RequestError(
            "a native savepoint of this job's state backend is not taken",
            operator=job.name,
            expected="RocksDB or the hashmap backend, without a changelog",
            found=f"{backend.name or 'none is told'}{' with a changelog' if backend.changelog else ''}",
            advice=_way_round(flink, job),
        )
    checkpoint = _read(flink, job, request, latest)
    if on_heap := [operator.label for operator in checkpoint.operators if _may_have_timers_on_heap(operator)]:
        raise RequestError(
            "a native savepoint would lose the timers of this job: they are kept on the heap, beside RocksDB",
            path=checkpoint.metadata_uri,
            operator=", ".join(on_heap),
            expected="timers in RocksDB (state.backend.rocksdb.timer-service.factory: ROCKSDB)",
            found="raw keyed state in the latest checkpoint: timers, or what cannot be told from them",
            advice=f"{_way_round(flink, job)}: it has them all",
        )
    with_timers = [operator.label for operator in checkpoint.operators if any(_timers_in_rocksdb(operator))]
    there = f"those of {', '.join(with_timers)} are in RocksDB" if with_timers else "no operator has any"
    return f"{backend.name} has no timers on the heap, {there}, as {checkpoint.directory} shows"


def _way_round(flink: Flink, job: Job) -> str:
    """The snapshot that has all, and takes every shape."""
    possible = why_none_is_taken(flink, job) is None
    return _CANONICAL if possible else f"Flink can take no canonical one either: {RETAINED}"


def _refuse_unread(flink: Flink, job: Job, request: Request, checkpoint: Snapshot) -> None:
    """`RequestError` where records of the heap's own format would be read that nothing tells apart."""
    shapes = new_shapes(checkpoint.operators, request)
    for operator in checkpoint.operators:
        try:
            if goes_by_record(operator, shapes[operator.entry.operator_id], request.format):
                refuse_heap(operator)
        except RescaleError as error:
            raise RequestError(
                "a native savepoint of this job could not be read record by record, as what is asked for takes",
                path=checkpoint.metadata_uri,
                operator=operator.label,
                state=error.state,
                expected=error.expected,
                found=f"{error.what}{'' if error.found is None else f': {error.found}'}",
                advice=_way_round(flink, job),
            ) from None


def _read(flink: Flink, job: Job, request: Request, checkpoint: Snapshot | Unread) -> Snapshot:
    """Without what the request drops; `RequestError` if there is none that can be read."""
    if isinstance(checkpoint, Unread):
        raise checkpoint.passing or _unknown(flink, job, checkpoint.why, checkpoint.place)
    return operated(checkpoint, operator_surgery(checkpoint.operators, {}, request.surgery.drops))


def _unknown(flink: Flink, job: Job, why: str, place: str | None = None) -> RequestError:
    return RequestError(
        "nobody can tell whether a native savepoint of this job will do",
        path=place,
        operator=job.name,
        expected="a checkpoint that shows where timers are kept, and how records are written",
        found=why,
        advice=f"{_way_round(flink, job)}; or let the job make a checkpoint where workers can read it (files of it "
        'that lie elsewhere: say where under "More places of state")',
    )


def _may_have_timers_on_heap(operator: Operator) -> bool:
    """Whether it has raw keyed state that is timers, or may be: not that of an operator that asked for no timers."""
    return any(stream.services is None or stream.services for stream in operator.raw_keyed)


def _timers_in_rocksdb(operator: Operator) -> Iterator[str]:
    for database in operator.databases:
        for state in database.parsed.states if database.parsed is not None else ():
            if state.kind is StateKind.PRIORITY_QUEUE:
                yield state.name

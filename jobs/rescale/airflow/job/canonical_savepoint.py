"""Check that Flink can take a canonical savepoint of a running job, before asking for one.

Flink 2 cannot take a canonical savepoint of state in ForSt (`ForStStateBackend.supportsSavepointFormat`). With any
state backend, it cannot take one of operators with asynchronous state (`StreamOperatorStateHandler.snapshotState`).
Flink does not decline the request: the tasks fail, and the job restarts from its last checkpoint, or ends. Neither the
job's plan nor a snapshot shows which operators have asynchronous state, but their metrics do
(`AsyncExecutionController`).
"""

from __future__ import annotations

import logging
import time

from rescale.airflow.flink.stopping import CHOOSE_NATIVE
from rescale.airflow.forms.form import field_title
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import Job
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Format
from rescale.snapshot.model import Snapshot
from rescale.text.errors import RequestError

log = logging.getLogger(__name__)

USE_RETAINED_CHECKPOINT = (
    'try "Plan only" with a retained checkpoint of the job, then cancel the job and run "Rescale a savepoint" with its '
    "last retained checkpoint"
)
"""Advice for jobs that cannot be rescaled from a savepoint."""

_FORST_OBSTACLE = "its state backend is ForStStateBackend"

_ASYNC_METRIC_PART = ".asyncStateProcessing."
"""Part of a metric's name that follows the name of an operator with asynchronous state."""

_METRICS_TIMEOUT_SECONDS = 12
"""Time to wait for metrics: on request, Flink fetches them at most every 10 s (`metrics.fetcher.update-interval`)."""


def refuse_canonical(flink: Flink, job: Job) -> None:
    """Raise `RequestError` if Flink cannot take a canonical savepoint of the job."""
    obstacle = canonical_obstacle(flink, job)
    if obstacle is not None:
        raise RequestError(
            "Flink cannot take a canonical savepoint of this job; asking for one would make the job fail",
            operator=job.name,
            found=obstacle,
            advice=USE_RETAINED_CHECKPOINT if obstacle == _FORST_OBSTACLE else CHOOSE_NATIVE,
        )


def refuse_timers_on_heap(checkpoint: Snapshot | UnreadableCheckpoint, request: Request) -> None:
    """Raise `RequestError` if the result would have timers in RocksDB, but the job keeps its timers on the heap.

    Such a job restores no timers from RocksDB. A canonical savepoint does not say where the job keeps timers. But
    `checkpoint`, the job's latest checkpoint, does: in it, timers on the heap are raw keyed state.
    """
    if request.format is not Format.ROCKSDB or isinstance(checkpoint, UnreadableCheckpoint):
        return
    if heap_operator_labels := [
        operator.label for operator in checkpoint.operators if operator.raw_timers or operator.hidden_timers
    ]:
        raise RequestError(
            "the new job would lose its timers: it keeps them on the heap, and the result would have them in RocksDB",
            path=checkpoint.metadata_uri,
            operator=", ".join(heap_operator_labels),
            option=f'"{field_title("format")}"',
            expected=f"{Format.KEEP.value} or {Format.CANONICAL.value}",
            found=request.format.value,
            advice='choose one of these; or let the job start from its last checkpoint ("What becomes of the job")',
        )


def canonical_obstacle(flink: Flink, job: Job) -> str | None:
    """Return a clause on why Flink cannot take a canonical savepoint, or None if there is no known reason."""
    backend = flink.state_backend(job.job_id)
    if backend is not None and backend.name == "ForStStateBackend":
        return _FORST_OBSTACLE
    operator_names = _asynchronous_operator_names(flink, job)
    return f"asynchronous state of {', '.join(operator_names)}" if operator_names else None


def _asynchronous_operator_names(flink: Flink, job: Job) -> list[str]:
    metric_names: set[str] = set()
    vertices_without_metrics: list[str] = []
    deadline = time.monotonic() + _METRICS_TIMEOUT_SECONDS
    for vertex in job.vertices:
        while not (metrics := flink.metric_names(job.job_id, vertex.operator_id)) and time.monotonic() < deadline:
            time.sleep(1)
        metric_names |= metrics
        vertices_without_metrics += [] if metrics else [vertex.name]
    if vertices_without_metrics:
        log.warning(
            "Flink has no metrics of %s, so it is unknown whether the state is asynchronous",
            ", ".join(vertices_without_metrics),
        )
    return sorted({name.partition(_ASYNC_METRIC_PART)[0] for name in metric_names if _ASYNC_METRIC_PART in name})

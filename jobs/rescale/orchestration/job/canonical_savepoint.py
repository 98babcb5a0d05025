"""Whether Flink can take a canonical savepoint of a running job: found out before it is asked for one.

Flink 2 has none of ForSt (`ForStStateBackend.supportsSavepointFormat`), nor of operators with asynchronous state, which
every backend may hold (`StreamOperatorStateHandler.snapshotState`). It does not decline: the tasks fail that are asked,
and the job goes back to its last checkpoint, or ends. Which operators these are, neither the job's plan nor a snapshot
tells, but their metrics do (`AsyncExecutionController`).
"""

from __future__ import annotations

import logging
import time

from rescale.errors import RequestError
from rescale.orchestration.flink.rest import Flink
from rescale.orchestration.flink.running_job import Job
from rescale.orchestration.flink.stopping import SAY_NATIVE

log = logging.getLogger(__name__)

RETAINED = (
    'try "Plan only" with a checkpoint of the job that is retained, then cancel the job and give its last one to '
    '"Rescale a savepoint"'
)
"""The way round where no savepoint will do."""

_ON_FORST = "its state backend is ForStStateBackend"

_ASYNCHRONOUS = ".asyncStateProcessing."
"""The group of metrics that stands behind an operator's name."""

_PATIENCE = 12
"""So many seconds: Flink fetches metrics when it is asked for them, every 10 (`metrics.fetcher.update-interval`)."""


def refuse_canonical(flink: Flink, job: Job) -> None:
    """`RequestError` if Flink can take no canonical savepoint of the job."""
    why = why_none_is_taken(flink, job)
    if why is not None:
        raise RequestError(
            "a canonical savepoint would make this job fail: Flink cannot take one of it",
            operator=job.name,
            found=why,
            advice=RETAINED if why == _ON_FORST else SAY_NATIVE,
        )


def why_none_is_taken(flink: Flink, job: Job) -> str | None:
    """In a clause; None if nothing stands against it that Flink tells."""
    backend = flink.state_backend(job.job_id)
    if backend is not None and backend.name == "ForStStateBackend":
        return _ON_FORST
    operators = _asynchronous(flink, job)
    return f"asynchronous state of {', '.join(operators)}" if operators else None


def _asynchronous(flink: Flink, job: Job) -> list[str]:
    """Operators with asynchronous state, by name."""
    names: set[str] = set()
    silent: list[str] = []
    deadline = time.monotonic() + _PATIENCE
    for vertex in job.vertices:
        while not (told := flink.metrics(job.job_id, vertex.operator_id)) and time.monotonic() < deadline:
            time.sleep(1)
        names |= told
        silent += [] if told else [vertex.name]
    if silent:
        log.warning("Flink tells no metrics of %s: whether its state is asynchronous is not known", ", ".join(silent))
    return sorted({name.partition(_ASYNCHRONOUS)[0] for name in names if _ASYNCHRONOUS in name})

"""Refuses jobs that cannot be rescaled while they run, before any state is moved."""

from __future__ import annotations

from rescale.airflow.job.job_shape import changes_max_parallelism
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.flink_rest.client import Flink, StateBackend
from rescale.flink_rest.running_job import Job
from rescale.following.round_plan import LIGHT_BYTES, is_light
from rescale.plan.plan import Plan
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Files
from rescale.snapshot.model import Snapshot
from rescale.text.errors import RequestError
from rescale.text.units import human_bytes

_ROCKSDB = "RocksDB"
_SWITCH_OFF_ADVICE = 'switch "Move the state while the job runs" off; then the job is stopped before its state is moved'


def refuse_unfollowable_job(
    flink: Flink, job: Job, request: Request, checkpoint: Snapshot | UnreadableCheckpoint
) -> None:
    """Raise `RequestError` if every round would have to move all state; `checkpoint` is the job's latest checkpoint.

    Also raises it if the result is to refer to files of the source, although the max parallelism changes.
    """
    if request.files is Files.REFER and changes_max_parallelism(job, request):
        raise RequestError(
            "state that gets other key groups cannot stay in the files of the source",
            option='"Files of RocksDB"',
            expected=Files.COPY.value,
            found=request.files.value,
            advice='choose "copy", or switch "Move the state while the job runs" off',
        )
    if (obstacle := _obstacle(flink.state_backend(job.job_id), checkpoint)) is not None:
        raise RequestError(
            "each round would have to move all state of this job",
            path=flink.address,
            operator=job.name,
            expected="RocksDB with incremental checkpoints, without a changelog",
            found=obstacle,
            advice=_SWITCH_OFF_ADVICE,
        )


def _obstacle(backend: StateBackend | None, checkpoint: Snapshot | UnreadableCheckpoint) -> str | None:
    """Return why rounds cannot move only the changes; None if they can."""
    if backend is None:
        return "no checkpoints"
    if _ROCKSDB not in backend.name:
        return backend.name
    if backend.has_changelog:
        return "a changelog"
    if isinstance(checkpoint, Snapshot) and any(operator.keyed for operator in checkpoint.operators):
        return f"checkpoints that are not incremental, as {checkpoint.directory} shows"
    return None


def refuse_heavy_plan(plan: Plan) -> None:
    """Raise `RequestError` if a plan without rounds would write much while the job stands still."""
    if not is_light(plan):
        raise RequestError(
            "the new parallelism joins RocksDB directories, which would be rewritten while the job stands still",
            path=plan.source,
            expected=f"at most {human_bytes(LIGHT_BYTES)} to write",
            found=human_bytes(plan.bytes_moved),
            advice="choose a multiple or a divisor of the old parallelism, or another max parallelism too",
        )

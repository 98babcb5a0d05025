"""An operator that takes a job's savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from airflow.sdk import Context

from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.operators import WaitingOperator
from rescale.airflow.flink.questions import Answer
from rescale.airflow.flink.stopping import JobToRestart, begin_savepoint, job_to_restart_of, running_jobs
from rescale.airflow.forms.given_values import check_job_values
from rescale.airflow.hand_overs import Print
from rescale.airflow.public.task_name import task_name
from rescale.airflow.state_stores import task_state
from rescale.airflow.steps.retries import task_errors
from rescale.flink_rest.client import Flink, SavepointFormat, StopMode
from rescale.flink_rest.running_job import Job
from rescale.planning.request.request import make_request
from rescale.storage.locations import join
from rescale.text.errors import RequestError

_JOB_KEY = "rescale_job"
"""Key of the task's state that describes the job as the first try found it: the job may end before a later try."""


class TakeSavepointOperator(WaitingOperator):
    """Operator that lets Flink write the savepoint of a running job, and waits for it without a worker.

    A task that is tried again finds the savepoint that an earlier try began. With `taking` other than `run on`, the job
    has ended when the task succeeds, and is not started again if a later task fails. The DAG *Rescale a running job*
    starts such a job again.

    Its output has the fields `savepoint` (a URI), `job` (the job's id) and `state` (the job's state).

    :param flink: address of Flink's REST API, or id of an Airflow connection of type http.
    :param job: name of a running job, if it is unique, or its id.
    :param savepoints: directory in which Flink writes the savepoint.
    :param savepoint_format: `canonical`, or `native` for the state backend's own files. With RocksDB, a native
        savepoint lacks timers that the job keeps on the heap. So the task fails, and takes none, unless the job's
        latest checkpoint can be read and shows that there are no such timers.
    :param taking: fate of the job: `run on`, `stop` (stop with savepoint) or `cancel`.
    """

    template_fields: Sequence[str] = ("flink", "job", "savepoints", "savepoint_format", "taking")

    def __init__(
        self,
        *,
        flink: str,
        job: str,
        savepoints: str,
        savepoint_format: str = SavepointFormat.CANONICAL.value,
        taking: str = StopMode.RUN_ON.value,
        **arguments: Any,
    ) -> None:
        super().__init__(**{"multiple_outputs": True, **arguments})
        self.flink = flink
        self.job = job
        self.savepoints = savepoints
        self.savepoint_format = savepoint_format
        self.taking = taking

    def execute(self, context: Context) -> Answer:
        with task_errors():
            check_job_values({name: getattr(self, name) for name in self.template_fields})
            task_store = task_state(context.get("task_state_store"), context["ti"])
            stored_document = task_store.get(_JOB_KEY)
            old_job = None if stored_document is None else job_to_restart_of(stored_document)
            if old_job is None or (old_job.taking is StopMode.RUN_ON and _runs_under_another_id(old_job)):
                old_job = self._inspect_job()
                task_store.set(_JOB_KEY, msgspec.to_builtins(old_job))
            return self._answer_or_defer(begin_savepoint(old_job, self._run_name(context)))

    def _inspect_job(self) -> JobToRestart:
        from rescale.airflow.flink.inspection import inspect_job

        savepoint_format = SavepointFormat(self.savepoint_format or SavepointFormat.CANONICAL)
        taking = StopMode(self.taking or StopMode.RUN_ON)
        if taking is StopMode.CHECKPOINT:
            raise RequestError(
                "this operator takes savepoints, not checkpoints",
                option="taking",
                expected=", ".join(mode.value for mode in StopMode if mode is not StopMode.CHECKPOINT),
                found=taking.value,
                advice="use TakeCheckpointOperator, or the DAG Rescale a running job",
            )
        old_job = inspect_job(self.flink, self.job, StopMode.RUN_ON, self.savepoints, Print(), savepoint_format)
        with open_flink(self.flink) as flink:
            if (job := flink.job(old_job.job_id)) is not None:
                _refuse_incomplete(flink, job, old_job.directory, savepoint_format)
        return msgspec.structs.replace(old_job, taking=taking)

    def _run_name(self, context: Context) -> str:
        return task_name(context)


def _refuse_incomplete(flink: Flink, job: Job, directory: str, savepoint_format: SavepointFormat) -> None:
    """Raise `RequestError` if Flink cannot take a savepoint of this format, or if the savepoint may lack timers."""
    from rescale.airflow.job.canonical_savepoint import refuse_canonical
    from rescale.airflow.job.latest_checkpoint import open_latest_checkpoint
    from rescale.airflow.job.native_savepoint import check_native_savepoint

    if savepoint_format is SavepointFormat.CANONICAL:
        refuse_canonical(flink, job)
    else:
        request = make_request(join(directory, "savepoint"), join(directory, "result"))  # asks for the same shape
        check_native_savepoint(flink, job, request, open_latest_checkpoint(flink, job, request))


def _runs_under_another_id(old_job: JobToRestart) -> bool:
    """Return whether the job has ended, and was started again: a savepoint of the new job serves as well."""
    with open_flink(old_job.flink) as flink:
        running_ids = [job.job_id for job in running_jobs(flink.jobs(), old_job.name)]
    return bool(running_ids) and old_job.job_id not in running_ids

"""An operator that takes a job's checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from airflow.sdk import Context

from rescale.airflow.flink.checkpoint_question import CheckpointQuestion
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.ids import derived_ids
from rescale.airflow.flink.operators import WaitingOperator
from rescale.airflow.flink.questions import Answer
from rescale.airflow.forms.given_values import check_job_values
from rescale.airflow.public.task_name import task_name
from rescale.airflow.steps.retries import task_errors
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import find_job
from rescale.text.errors import RescaleError

_MOST_CHECKPOINTS = 20
"""Number of failed checkpoints after which a task gives up."""


class TakeCheckpointOperator(WaitingOperator):
    """Operator that lets Flink make a checkpoint of a running job, and waits for it without a worker.

    It needs Flink 1.17 or newer. Flink deletes the checkpoint when newer ones have replaced it, as it does with all
    checkpoints of the job. A task that is tried again finds the checkpoint that an earlier try began.

    Its output has the fields `checkpoint` (a URI), `id` (the checkpoint's number) and `job` (the job's id).

    :param flink: address of Flink's REST API, or id of an Airflow connection of type http.
    :param job: name of a running job, if it is unique, or its id.
    :param full: whether the checkpoint shares no files with earlier ones, even if the job makes incremental ones.
    """

    template_fields: Sequence[str] = ("flink", "job")

    def __init__(self, *, flink: str, job: str, full: bool = False, **arguments: Any) -> None:
        super().__init__(**{"multiple_outputs": True, **arguments})
        self.flink = flink
        self.job = job
        self.full = full

    def execute(self, context: Context) -> Answer:
        with task_errors():
            check_job_values({"flink": self.flink, "job": self.job})
            with open_flink(self.flink) as flink:
                job_id = find_job(flink.jobs(), self.job, flink.address).job_id
                trigger_id = self._begin_checkpoint(flink, job_id, task_name(context))
            return self._answer_or_defer(CheckpointQuestion(self.flink, job_id, trigger_id))

    def _begin_checkpoint(self, flink: Flink, job_id: str, name: str) -> str:
        """Begin a checkpoint, unless an earlier try of this task did; return its trigger id."""
        for trigger_id in islice(derived_ids("checkpoint", name, job_id), _MOST_CHECKPOINTS):
            checkpoint = flink.triggered_checkpoint(job_id, trigger_id)
            if checkpoint is None:
                flink.trigger_checkpoint(job_id, trigger_id, is_full=self.full)
            if checkpoint is None or checkpoint.failure is None:
                return trigger_id
        raise RescaleError(
            "Flink could not make a checkpoint", path=flink.address, found=f"{_MOST_CHECKPOINTS} failed attempts"
        )

"""A sensor that waits for a job's next complete checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue

from rescale.airflow.forms.given_values import check_job_values
from rescale.airflow.public.checkpoint_trigger import CheckpointTrigger, newest_checkpoint
from rescale.airflow.steps.retries import RETRIES, task_errors


class CheckpointSensor(BaseSensorOperator):
    """Sensor that waits for a checkpoint that completes after the task has started. Savepoints do not count.

    Its output has the fields `checkpoint` (a URI), `id` (the checkpoint's number) and `job` (the job's id).

    :param flink: address of Flink's REST API, or id of an Airflow connection of type http.
    :param job: name of a running job, if it is unique, or its id.
    :param deferrable: whether to wait without a worker; None for Airflow's setting `operators.default_deferrable`.
    """

    template_fields: Sequence[str] = ("flink", "job")

    def __init__(self, *, flink: str, job: str, deferrable: bool | None = None, **arguments: Any) -> None:
        super().__init__(**{**RETRIES, "multiple_outputs": True, **arguments})
        if self.mode == "reschedule":
            raise ValueError("a sensor that is rescheduled forgets which checkpoint it saw first: use deferrable=True")
        self.flink = flink
        self.job = job
        default = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = default if deferrable is None else deferrable
        self._first_uri: str | None = None

    def execute(self, context: Context) -> Any:
        with task_errors():
            check_job_values({"flink": self.flink, "job": self.job})
            self._first_uri = self._checkpoint_uri(newest_checkpoint(self.flink, self.job))
        if not self.deferrable:
            return super().execute(context)
        trigger = CheckpointTrigger(self.flink, self.job, self.poke_interval, self._first_uri or "")
        return self.defer(trigger=trigger, method_name="arrived", timeout=timedelta(seconds=self.timeout))

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """Return the newest checkpoint if it is another one than at the start."""
        with task_errors():
            newest = newest_checkpoint(self.flink, self.job)
        return PokeReturnValue(is_done=self._checkpoint_uri(newest) not in (None, self._first_uri), xcom_value=newest)

    def arrived(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return the checkpoint that the trigger has seen."""
        return event

    @staticmethod
    def _checkpoint_uri(checkpoint: dict[str, Any] | None) -> str | None:
        return checkpoint["checkpoint"] if checkpoint is not None else None

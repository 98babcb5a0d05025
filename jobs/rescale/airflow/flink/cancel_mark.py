"""Mark that a task sets before it cancels a job, for its later tries and for the task that goes back."""

from __future__ import annotations

from typing import Any, NamedTuple

from rescale.airflow.steps.earlier_tasks import ENDED, GO_BACK, task_states
from rescale.text.errors import RescaleError

CANCELS = "cancels"
"""Key in the task's state, and of its XCom; the value is the id of the job."""

CANCELS_AFTER = "cancels_after"
"""Key in the same places; the value is the number of a checkpoint that the job had completed before the cancel.

0 if it is unknown."""

WENT_BACK = "went_back"
"""Key in the task's state; the value is the id of a job that the task has started again as it was."""


class CancelMark(NamedTuple):
    """The mark of the task instance `ti`, whose tries have `state` in common, for the job `job_id`."""

    state: Any
    ti: Any
    job_id: str

    @property
    def is_set(self) -> bool:
        """Whether this try or an earlier one has set the mark."""
        return bool(self.state.get(CANCELS) == self.job_id)

    @property
    def checkpoint(self) -> int | None:
        """Number of a checkpoint that the job had completed before the cancel; None if unknown."""
        number: int | None = self.state.get(CANCELS_AFTER)
        return number or None

    @property
    def went_back(self) -> bool:
        """Whether an earlier try, or the task that goes back, has started the job again.

        Then the task must start no job any more: another run may have taken that one over since.
        """
        back = self.ti.xcom_pull(task_ids=GO_BACK, key="return_value")
        is_back = isinstance(back, dict) and back.get("in_place_of") == self.job_id
        return is_back or bool(self.state.get(WENT_BACK) == self.job_id)

    def set_went_back(self) -> None:
        """Record that the job was started again."""
        self.state.set(WENT_BACK, self.job_id)

    def set(self, checkpoint: int | None) -> None:
        """Set the mark. The id of the job comes last, so that the number is never that of another job."""
        known = checkpoint or 0  # Airflow's store refuses None
        for key, value in ((CANCELS_AFTER, known), (CANCELS, self.job_id)):
            self.state.set(key, value)
            self.ti.xcom_push(key, value)

    def set_before_cancel(self, checkpoint: int | None) -> None:
        """Set the mark right before the cancel. Raises the error of `refuse_ended_task`."""
        self.refuse_ended_task()
        self.set(checkpoint)

    def refuse_ended_task(self) -> None:
        """Raise `RescaleError` if the task counts as ended: then it must not stop the job any more.

        That is so if somebody has marked it as failed. Airflow ends its process seconds later, and meanwhile the task
        that goes back may have found that the job still runs.
        """
        if (state := task_states(self.ti).get(self.ti.task_id)) in ENDED:
            what = "the job is not stopped, because somebody has ended this task"
            raise RescaleError(what, expected="a task that runs", found=state)

    def renew(self) -> None:
        """Push the XComs again if an earlier try has set the mark: Airflow removes them before each try.

        A try does this first of all, because it may be killed as well, and the job does not run any more.
        """
        if self.is_set:
            self.set(self.checkpoint)

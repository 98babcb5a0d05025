"""Mark that a task sets before it cancels a job, for its later tries and for the task that goes back."""

from __future__ import annotations

from typing import Any, NamedTuple

CANCELS = "cancels"
"""Key in the task's state, and of its XCom; the value is the id of the job."""

CANCELS_AFTER = "cancels_after"
"""Key in the task's state, and of its XCom; the value is the number of a checkpoint completed before the cancel."""

WENT_BACK = "went_back"
"""Key in the task's state; the value is the id of the job that was started again after its cut-over had failed."""


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
        return number

    @property
    def went_back(self) -> bool:
        """Whether an earlier try has started the job again, so that the task must not touch Flink any more."""
        return bool(self.state.get(WENT_BACK) == self.job_id)

    def set_went_back(self) -> None:
        """Record that the job was started again."""
        self.state.set(WENT_BACK, self.job_id)

    def set(self, checkpoint: int | None) -> None:
        """Set the mark. A later try sets it again, because Airflow removes the XComs of a task before each try."""
        for key, value in ((CANCELS_AFTER, checkpoint), (CANCELS, self.job_id)):
            self.state.set(key, value)
            self.ti.xcom_push(key, value)

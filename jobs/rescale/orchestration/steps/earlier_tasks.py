"""What earlier tasks have told, asked for by those that go on from it.

Whoever may, marks a task as successful that has told nothing, or not to its end; those after it begin then. They miss
at once what they need, a yes to the plan too, and say which task is to be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from rescale.errors import RequestError

Summary = dict[str, Any]
"""What goes from task to task, through Airflow's database: at most 8 KiB."""

OPEN, LOOK, TAKE, PLAN, ASK, PUBLISH = "open_window", "look_at_job", "take_savepoint", "plan", "approve", "publish"
"""The tasks that others go on from."""

APPROVED = "approved"
"""The key of the XCom that holds the answer: whether the `plan` of a digest is `approved`, and in `words` by whom."""

T = TypeVar("T")


class Told(NamedTuple):
    """A value that an earlier task will have told, under a name."""

    task_id: str
    name: str

    def by(self, ti: Any) -> Any:
        """The value, in the run of a task instance; `RequestError` as `told_by`."""
        return told_by(self.task_id, ti.xcom_pull(task_ids=self.task_id))[self.name]


def told_by(task_id: str, told: T | None) -> T:
    """What a task has told; `RequestError` if that is nothing, as of one that somebody marked as successful."""
    if told is None:
        raise RequestError(
            f"the task {task_id!r} has told nothing: it did not come to its end",
            found="it was marked as successful, or its XCom was deleted",
            advice=f"clear the task {task_id!r} and those after it",
        )
    return told


def the_plan_to_carry_out(planned: Summary | None, params: Mapping[str, Any], ti: Any) -> Summary:
    """What the task that plans has told; `RequestError` if somebody is to approve the plan and nobody has.

    Airflow keeps what a task has told until its next try begins, so there may be an answer to an earlier plan.
    """
    planned = told_by(PLAN, planned)
    if params["require_approval"] and not planned["published"]:
        answer = told_by(ASK, ti.xcom_pull(task_ids=ASK, key=APPROVED))
        about = answer.get("plan")  # a question of an earlier release does not say
        if about != planned["digest"]:
            raise RequestError(
                "nobody was asked about this plan: the answer is to another one",
                expected=f"an answer to the plan {planned['digest']}",
                found=f"{answer['words']}: {f'the plan {about}' if about else 'no plan is named'}",
                advice=f"clear the task {ASK!r} and those after it, and answer what it asks then",
            )
        if not answer["approved"]:
            raise RequestError("the plan was rejected", found=answer["words"], advice="trigger another run")
    return planned

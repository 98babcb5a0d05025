"""Outputs of earlier tasks, as the XComs that later tasks read.

A user may mark a task as successful that has not run to its end. The tasks after it then start without its output. They
fail at once, and name the task to clear.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from rescale.text.errors import RequestError

Summary = dict[str, Any]
"""Output of a task for other tasks, stored in Airflow's database; at most 8 KiB of JSON."""

OPEN_TASK, LOOK_TASK, TAKE_TASK = "open_window", "look_at_job", "take_savepoint"
PLAN_TASK, ASK_TASK, PUBLISH_TASK = "plan", "approve", "publish"
PREPARE_TASK, FOLLOW_TASK, ASK_CUT_OVER_TASK = "copy_files_ahead", "follow_and_cut_over", "ask_to_cut_over"
HAND_OVER_TASK, VERIFY_TASK = "hand_over", "compare_all_records"
ANNOUNCE_TASK, GO_BACK_TASK = "announce", "go_back"
"""Ids of the tasks whose output other tasks read."""

INSPECT_TASK, RESHUFFLE_TASK, REDISTRIBUTE_TASK, VALIDATE_TASK = (
    "inspect",
    "reshuffle_keyed_state",
    "redistribute_operator_state",
    "validate",
)

TASKS_WITH_PODS = (RESHUFFLE_TASK, REDISTRIBUTE_TASK, VALIDATE_TASK)
"""Ids of the tasks that may start a pod: each of these tasks runs a step of the pipeline."""

ROUNDS_KEY = "rounds"
"""Key under which the task that follows a job describes the newest round, in an XCom and in the state of the task."""

FOLLOWED_TARGET_KEY = "followed"
"""Key of the XCom in which the task that follows a job stores its target when it starts."""

PLAN_ANSWER_KEY = "approved"
"""Key of the XCom with the answer about a plan.

Its fields: digest of the `plan`, whether it is `approved`, and the answer as a clause (`words`). The XCom is only for
messages; `required_approval` decides what is carried out.
"""

ENDED_STATES = ("success", "failed", "skipped", "upstream_failed", "removed")
"""States of tasks that have ended."""

T = TypeVar("T")


def name_of_run(ti: Any) -> str:
    """Return the name that all tasks of a run share; the ids that Flink gets are derived from it."""
    return f"{ti.dag_id}/{ti.run_id}"


def task_states(ti: Any) -> dict[str, str | None]:
    """Return the states of all tasks of a run, by task id."""
    states: dict[str, str | None] = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id])[ti.run_id]
    return states


def sibling_task_id(task_id: str, sibling: str) -> str:
    """Return the id of another task of the same rescale.

    If the tasks of a rescale are in a task group, their ids start with the id of the group.
    """
    group, dot, _ = task_id.rpartition(".")
    return f"{group}{dot}{sibling}"


class XComField(NamedTuple):
    """Field of the output that an earlier task will have; if it `is_optional`, the output may lack it."""

    task_id: str
    name: str
    is_optional: bool = False

    def pull(self, ti: Any) -> Any:
        """Return the value that the field has in the run of `ti`.

        Raises `RequestError` if the earlier task has no output.
        """
        output = required_output(self.task_id, ti.xcom_pull(task_ids=self.task_id))
        return output.get(self.name) if self.is_optional else output[self.name]


def output_of_any(ti: Any, *task_ids: str) -> Any:
    """Return the output of the first of these tasks of the rescale that has one, or None."""
    sibling_ids = (sibling_task_id(ti.task_id, task_id) for task_id in task_ids)
    return next((output for task_id in sibling_ids if (output := ti.xcom_pull(task_ids=task_id)) is not None), None)


def required_output(task_id: str, output: T | None) -> T:
    """Return the output of a task.

    Raises `RequestError` if it is None: for example, a user has marked the task as successful.
    """
    if output is None:
        raise RequestError(
            f"the task {task_id!r} has no output: it did not finish",
            found="a task that was marked as successful, or whose XCom was deleted",
            advice=f"clear the task {task_id!r} and those after it",
        )
    return output

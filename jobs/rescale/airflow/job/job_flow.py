"""The task graph of a running job's rescale, around the graph that every rescale has.

The task that inspects the job is a *setup*, and the task that goes back is its *teardown*: it runs after everything
else, whatever failed, was rejected or was cancelled. Airflow runs the teardowns even of a run that is marked as failed.
"""

from __future__ import annotations

from airflow.sdk import TaskGroup, chain

from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.graph import RescaleTasks, rescale_graph
from rescale.airflow.job.job_operators import GoBack, TakeSavepoint
from rescale.airflow.job.job_tasks import job_end_task, look
from rescale.airflow.job.prepare_task import prepare_files
from rescale.airflow.live.cut_over_question import AskToCutOver
from rescale.airflow.live.follow_task import follow
from rescale.airflow.live.verify_task import verify
from rescale.airflow.savepoint_tasks import PlaceXComs
from rescale.airflow.settings import settings
from rescale.airflow.steps.earlier_tasks import GO_BACK_TASK, HAND_OVER_TASK, LOOK_TASK, TAKE_TASK, XComField

_RETRIES_TO_GO_BACK = 14
"""Retries for almost an hour: a job that was stopped does not run again until the task has succeeded."""


def rescale_job_tasks(
    place_xcoms: PlaceXComs = None, closes_at: XComField | None = None, opens_at: XComField | None = None
) -> RescaleTasks:
    """Create the tasks of a running job's rescale, from the inspection of the job to its start.

    `place_xcoms` and `closes_at` are those of `rescale_graph`. `opens_at` is the output field with the earliest time
    for a cut-over. Either the job is stopped first, and its savepoint or last checkpoint is the source; or one task
    moves its state while it runs. Tasks that the form does not need skip themselves.
    """
    with TaskGroup("stop", prefix_group_id=False, group_display_name="Take the savepoint"):
        look_task = look(place_xcoms)
        prepare_task = prepare_files(place_xcoms, look_task)
        take_task = TakeSavepoint(
            task_id=TAKE_TASK,
            task_display_name="Take the savepoint",
            doc_md="Lets Flink write the job's savepoint, for which no worker waits; or cancels the job after a "
            "checkpoint.",
            old_job_document=look_task["before"],
        )
    with TaskGroup("live", prefix_group_id=False, group_display_name="While it runs"):
        ask_task = AskToCutOver(
            task_display_name="Ask to cut over",
            doc_md="Asks for the cut-over as soon as the last round would be short enough. Rounds go on meanwhile.",
        )
        follow_task = follow(place_xcoms, closes_at, opens_at, look_task)
        verify_task = verify(follow_task)
    rescale_tasks = rescale_graph({"source": XComField(TAKE_TASK, "savepoint"), **(place_xcoms or {})}, closes_at)
    with TaskGroup("start", prefix_group_id=False, group_display_name="Hand over"):
        hand_over_task = HandOverJob(
            task_id=HAND_OVER_TASK,
            task_display_name="Hand over",
            doc_md="Starts the job from the result, or prints the command for it.",
            hand_over=look_task["hand_over"],
            start=rescale_tasks.result_tasks["starting"],
            old_job_document=look_task["before"],
            parallelism=look_task["parallelism"],
        )
        go_back_task = GoBack(
            task_id=GO_BACK_TASK,
            task_display_name="Go back",
            doc_md="If anything failed, starts the stopped job again from its savepoint, with its old shape.",
            old_job_document=look_task["before"],
            take_output=take_task.output,
            retries=_RETRIES_TO_GO_BACK,
            on_success_callback=[notifier.create() for notifier in settings().notify.back] or None,
        )
    chain(prepare_task, take_task, rescale_tasks.first_task)
    chain(look_task, ask_task)
    chain(rescale_tasks.result_tasks, hand_over_task)
    chain([hand_over_task, follow_task, ask_task], go_back_task)
    go_back_task.as_teardown(setups=look_task.operator)
    return RescaleTasks(
        look_task, [hand_over_task, follow_task], [*rescale_tasks.last_tasks, verify_task, go_back_task]
    )


def rescale_running_job_tasks() -> None:
    """Create the tasks of a rescale of the running job that the form names."""
    chain(rescale_job_tasks().last_tasks, job_end_task([LOOK_TASK]))

"""The way of a running job, as Airflow draws it: around the one that every rescale takes.

The look at the job is a *setup*, and going back its *teardown*: it comes after everything else, whatever failed, was
rejected or cancelled (Airflow lets the teardowns of a run go on that is marked as failed).
"""

from __future__ import annotations

from airflow.sdk import TaskGroup, chain

from rescale.orchestration.flink.operators import HandOverJob, TakeSavepoint
from rescale.orchestration.graph import Way, rescale_graph
from rescale.orchestration.job.job_tasks import GO_BACK, HAND_OVER, GoBackIfNeeded, job_end_task, look
from rescale.orchestration.savepoint_tasks import Known
from rescale.orchestration.settings import settings
from rescale.orchestration.steps.earlier_tasks import LOOK, TAKE, Told

_RETRIES_TO_GO_BACK = 14
"""Most of an hour: until then no job runs."""


def job_graph(known: Known = None, closes: Told | None = None) -> Way:
    """From the look at the job to the job that runs from the result, or again; `published` of it has handed it over.

    `known` and `closes` as in `rescale_graph`; the savepoint is the source.
    """
    with TaskGroup("stop", prefix_group_id=False, group_display_name="Take the savepoint"):
        looked = look(known)
        taken = TakeSavepoint(
            task_id=TAKE,
            task_display_name="Take the savepoint",
            doc_md="Has Flink write the job's savepoint, and waits for it without a worker.",
            before=looked["before"],
        )
    way = rescale_graph({"source": Told(TAKE, "savepoint"), **(known or {})}, closes)
    with TaskGroup("start", prefix_group_id=False, group_display_name="Hand over"):
        handed_over = HandOverJob(
            task_id=HAND_OVER,
            task_display_name="Hand over",
            doc_md="Starts the job from the result, or shows the command that does.",
            hand_over=looked["hand_over"],
            start=way.published["starting"],
            before=looked["before"],
            parallelism=looked["parallelism"],
        )
        gone_back = GoBackIfNeeded(
            task_id=GO_BACK,
            task_display_name="Go back",
            doc_md="Starts a job that was stopped again from its savepoint, at its old shape, if anything failed.",
            before=looked["before"],
            taken=taken.output,
            retries=_RETRIES_TO_GO_BACK,
            on_success_callback=[one.made() for one in settings().notify.back] or None,
        )
    chain(taken, way.first)
    chain(way.published, handed_over, gone_back)
    gone_back.as_teardown(setups=looked.operator)
    return Way(looked, handed_over, [*way.last, gone_back])


def running_job_graph() -> None:
    """The rescale of a running job, which the form names."""
    chain(job_graph().last, job_end_task([LOOK]))

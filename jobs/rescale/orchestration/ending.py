"""The last task of every run: it alone decides the colour, from what is.

Airflow colours a run by its last tasks, and one that was skipped counts as well as one that succeeded; a run that was
cancelled, cleared in part or rejected would be green. So the last task is a *teardown* without a setup: it comes after
everything else, whatever failed or was skipped or cancelled, and Airflow neither skips it nor lets a run that is marked
as failed end before it. It succeeds if the result is published, is skipped if there was nothing to do, and fails
otherwise, with a sentence that says what is missing. Pods that tasks have left are deleted first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rescale.errors import RequestError, RescaleError
from rescale.orchestration.connections.access import storage_access
from rescale.orchestration.steps.earlier_tasks import APPROVED, ASK, PLAN, PUBLISH, Summary
from rescale.orchestration.steps.rescale_task import NOTHING_TO_DO, rescale_task, skip_task
from rescale.orchestration.steps.step_task import end_steps_of
from rescale.storage.store import open_store
from rescale.target.documents import load_plan
from rescale.target.publication import was_published

END = "end"

_ADVICE = (
    "the log of the first task that failed says why; a run that was cancelled goes on if all its tasks are cleared "
    "that did not succeed, the skipped ones too"
)


def end_task(
    may_have_nothing_to_do: Sequence[str] = (), *, then: Sequence[str], remark: Callable[[Any], str] | None = None
) -> Any:
    """The task that says how the run ended; it must stand downstream of all others.

    `may_have_nothing_to_do` are tasks that skip the run (`skip_task`), `then` those after the publication without which
    the run did not go through. `remark` tells, from the task instance, what else is to be known of one that did not.
    """

    def end(params: Any = None, ti: Any = None) -> Summary:
        """Is the result published, and everything done that comes after it?"""
        end_steps_of(ti.dag_id, ti.run_id)
        _skip_if_nothing_to_do(ti, may_have_nothing_to_do)
        try:
            published = _published(ti, params["connection"])
            _refuse_unfinished(ti, published["target"], then)
        except RescaleError as error:
            if remark is not None and error.final:
                error.what += f"; {remark(ti)}"
            raise
        return published

    return rescale_task(end, END, "Did it go through?", has_access=False)().operator.as_teardown(
        on_failure_fail_dagrun=True
    )


def _skip_if_nothing_to_do(ti: Any, first: Sequence[str]) -> None:
    """Ends the task as skipped, with the reason of the task among these that found nothing to do."""
    for task_id in first:
        reason = ti.xcom_pull(task_ids=task_id, key=NOTHING_TO_DO)
        if reason is not None and not _has_failed(ti):  # what an earlier pass told stays until its task begins again
            skip_task(reason)


def _has_failed(ti: Any) -> bool:
    """Whether any task of the run has: then there was something to do, be it to go back."""
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id])[ti.run_id]
    return not {"failed", "upstream_failed"}.isdisjoint(states.values())


def _published(ti: Any, connection: str | None) -> Summary:
    """What `publish` told of the result that is there; one of our errors if none is.

    Storage is looked into where there is a plan: without access to it a run has ended, and said so, before.
    """
    if _was_rejected(ti):
        raise RequestError(
            "nothing was published: the plan was rejected",
            found=ti.xcom_pull(task_ids=ASK, key=APPROVED)["words"],
            advice="trigger another run",
        )
    planned = ti.xcom_pull(task_ids=PLAN)
    if planned is None:
        raise RescaleError("nothing was published: the run ended before there was a plan", advice=_ADVICE)
    with storage_access(connection):
        store, plan_uri = open_store(planned["plan"]), planned["plan"]
        if store.stat(plan_uri) is None or not was_published(load_plan(plan_uri)):
            raise RescaleError("nothing was published", path=planned["target"], advice=_ADVICE)
    told = ti.xcom_pull(task_ids=PUBLISH)
    if told is None:
        raise RescaleError(
            f"the result is published, but the task {PUBLISH!r} did not come to its end",
            path=planned["target"],
            advice=f"clear the task {PUBLISH!r} and those after it",
        )
    return dict(told)


def _refuse_unfinished(ti: Any, target: str, then: Sequence[str]) -> None:
    for task_id in then:
        if ti.xcom_pull(task_ids=task_id) is None and ti.xcom_pull(task_ids=task_id, key=NOTHING_TO_DO) is None:
            raise RescaleError(
                f"the result is published, but the task {task_id!r} did not go through",
                path=target,
                advice=f"look at its log, then clear the tasks {task_id!r} and {END!r}",
            )


def _was_rejected(ti: Any) -> bool:
    """Whether somebody has rejected the plan, or nobody answered in time."""
    answer = ti.xcom_pull(task_ids=ASK, key=APPROVED)
    return answer is not None and not answer["approved"]

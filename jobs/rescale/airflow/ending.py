"""The last task of every run, which alone decides the state of the run.

Airflow takes the state of a run from its last tasks, and counts skipped ones as successful. By this rule alone, a run
that was cancelled, rejected, or cleared in part would be green. So the last task is a *teardown* without a setup: it
runs after everything else, whatever failed, was skipped or was cancelled. Airflow does not skip it, and waits for it
even if the run is marked as failed. The task deletes pods that tasks of the run left behind, and looks at the target.
It succeeds if the result is published, and skips itself if there was nothing to do. In all other cases, it fails with
an error that says what is missing and names the failed tasks.

In a user's DAG, a rescale is a task group, and its last task decides only the state of the group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import TriggerRule

from rescale.airflow.connections.access import form_access
from rescale.airflow.forms.form_advice import DISCARD_TITLE
from rescale.airflow.steps.earlier_tasks import (
    ANNOUNCE_TASK,
    FOLLOW_TASK,
    FOLLOWED_TARGET_KEY,
    GO_BACK_TASK,
    HAND_OVER_TASK,
    INSPECT_TASK,
    LOOK_TASK,
    PLAN_TASK,
    PUBLISH_TASK,
    TASKS_WITH_PODS,
    VERIFY_TASK,
    Summary,
    output_of_any,
    sibling_task_id,
    task_states,
)
from rescale.airflow.steps.rescale_task import NOTHING_TO_DO_KEY, rescale_task, skip_task
from rescale.airflow.steps.step_task import delete_pods_of_run
from rescale.text.errors import RequestError, RescaleError
from rescale.text.units import counted

log = logging.getLogger(__name__)

END_TASK = "end"

_TITLE = "Did it go through?"

_LOG_ADVICE = "the log of the first failed task says why"
_RESUME_ADVICE = f"{_LOG_ADVICE}; to resume a cancelled run, clear all tasks that did not succeed, the skipped ones too"


def end_task(
    skipping_task_ids: Sequence[str] = (),
    *,
    task_ids_after_publication: Sequence[str],
    remark: Callable[[Any], str] | None = None,
) -> Any:
    """Return the task that decides the state of the run; all other tasks must be upstream of it.

    `skipping_task_ids` are the ids of the tasks that can skip the whole run (`skip_task`). The tasks
    `task_ids_after_publication` must have succeeded, too, or have skipped themselves. `remark` is called with the task
    instance, and returns a clause that is added to the log line or error about the outcome.
    """

    def end(params: Any = None, ti: Any = None) -> Summary:
        """Checks that the result is published and that the tasks after the publication are done."""
        _delete_pods(ti)
        _skip_if_nothing_to_do(ti, skipping_task_ids)
        try:
            published_summary = _published_summary(ti, params)
            _refuse_unfinished(ti, published_summary["target"], task_ids_after_publication)
        except RescaleError as error:
            if remark is not None and error.is_final:
                error.what += f"; {remark(ti)}"
            raise
        log.info(
            "%s",
            "; ".join([f"the result was published: {published_summary['target']}", *([remark(ti)] if remark else [])]),
        )
        return published_summary

    return rescale_task(end, END_TASK, _TITLE, has_access=False)().operator.as_teardown(on_failure_fail_dagrun=True)


def _end_of_group(params: Any = None, ti: Any = None) -> Summary:
    """Checks that the result is published; its output describes the result."""
    _delete_pods(ti)
    if _rescale_task_states(ti).get(sibling_task_id(ti.task_id, INSPECT_TASK)) == "skipped":
        skip_task("the tasks before this group have skipped it")
    _skip_if_nothing_to_do(ti, [PLAN_TASK])
    published_summary = _published_summary(ti, params)
    _refuse_unfinished(ti, published_summary["target"], [ANNOUNCE_TASK])
    return published_summary


group_end_task = rescale_task(
    _end_of_group, END_TASK, _TITLE, has_access=False, multiple_outputs=True, trigger_rule=TriggerRule.ALL_DONE
)
"""Last task of a rescale that is a task group in a user's DAG; the tasks after the group wait for this task only.

It is no teardown, because Airflow does not let tasks wait for teardowns. Unless the result is published, it fails or
skips itself, so that the tasks after the group do not run.
"""


def _delete_pods(ti: Any) -> None:
    """Delete the pods that the rescale left behind.

    If the rescale is a task group, pods of other tasks of the DAG stay.
    """
    task_ids = [sibling_task_id(ti.task_id, task_id) for task_id in TASKS_WITH_PODS]
    delete_pods_of_run(ti.dag_id, ti.run_id, () if task_ids == [*TASKS_WITH_PODS] else task_ids)


def _skip_if_nothing_to_do(ti: Any, task_ids: Sequence[str]) -> None:
    """Skip this task, for the same reason, if a task in `task_ids` found nothing to do and no task failed."""
    for task_id in task_ids:
        reason = ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, task_id), key=NOTHING_TO_DO_KEY)
        # If tasks were cleared, the reason may be old: Airflow keeps the XCom of a task until the task starts again.
        if reason is not None and not _has_failed(ti):
            skip_task(reason)


def _has_failed(ti: Any) -> bool:
    """Return whether a task of the rescale failed."""
    return not {"failed", "upstream_failed"}.isdisjoint(_rescale_task_states(ti).values())


def _rescale_task_states(ti: Any) -> dict[str, str | None]:
    """Return the states of all tasks of the rescale, in the run or in its task group, by task id."""
    group_prefix = sibling_task_id(ti.task_id, "")
    return {task_id: state for task_id, state in task_states(ti).items() if task_id.startswith(group_prefix)}


def _failed_tasks(ti: Any) -> str | None:
    """Return the failed tasks of the rescale for an error's `found`, or None if no task failed."""
    failed_task_ids = sorted(
        task for task, state in _rescale_task_states(ti).items() if state == "failed" and task != ti.task_id
    )
    return f"failed: {', '.join(failed_task_ids)}" if failed_task_ids else None


def _published_summary(ti: Any, params: Mapping[str, Any]) -> Summary:
    """Return the output of the task that published the result. Raises an error if there is no published result.

    The task is `publish`, or `follow_and_cut_over` if the job was rescaled while it ran. Storage is read only if an
    earlier task has output a plan or a target. If none has, storage may be inaccessible.
    """
    from rescale.airflow.rejection import refuse_published, rejection_clause_of

    plan_output, summary = output_of_any(ti, PLAN_TASK, FOLLOW_TASK), output_of_any(ti, PUBLISH_TASK, FOLLOW_TASK)
    if plan_output is None:
        target = ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, FOLLOW_TASK), key=FOLLOWED_TARGET_KEY)
        if target is None:
            raise RescaleError("the run ended before there was a plan", found=_failed_tasks(ti), advice=_RESUME_ADVICE)
        with form_access(params):
            raise _unfinished_follow_error(ti, target)
    with form_access(params):
        if (rejection_clause := rejection_clause_of(ti)) is not None:
            refuse_published(plan_output["target"], plan_output["digest"], rejection_clause)
            raise RequestError(
                "nothing was published: the plan was rejected", found=rejection_clause, advice="trigger another run"
            )
        _refuse_unpublished(ti, plan_output, has_summary=summary is not None)
    if summary is None:
        raise RescaleError(
            f"the result was published, but the task {sibling_task_id(ti.task_id, PUBLISH_TASK)!r} did not finish",
            path=plan_output["target"],
            found=_failed_tasks(ti),
            advice=f"clear the task {sibling_task_id(ti.task_id, PUBLISH_TASK)!r} and those after it",
        )
    return dict(summary)


def _unfinished_follow_error(ti: Any, target: str) -> RescaleError:
    """Return the error of a run whose task `follow_and_cut_over` did not finish.

    The error says what is in the target now.
    """
    from rescale.airflow.live.next_run import next_run_advice
    from rescale.airflow.rejection import PUBLISHED_CLAUSE_BY_STATE
    from rescale.runstate.places import cut_over_place, follower_place, run_directory
    from rescale.runstate.states import TRANSITIONS, Transition, claim_on, state_of
    from rescale.storage.store import open_store

    claim = claim_on(target)
    if claim is not None and (claim.by.get("dag"), claim.by.get("run")) != (ti.dag_id, ti.run_id):
        what = f"the run ended before the job was cut over, and another run has claimed the target ({claim})"
        return RescaleError(what, path=target, found=_failed_tasks(ti), advice=_LOG_ADVICE)
    state = state_of(target, None if claim is None else claim.plan_digest)
    if (published_clause := PUBLISHED_CLAUSE_BY_STATE.get(state)) is not None:
        return RescaleError(
            f"the task {FOLLOW_TASK!r} did not finish, but {published_clause}",
            path=target,
            found=_failed_tasks(ti),
            advice="trigger another run with another target; start no second job from this result, and delete it "
            "yourself when no job uses it",
        )
    go_back_state = _rescale_task_states(ti).get(sibling_task_id(ti.task_id, GO_BACK_TASK))
    store, advice = open_store(target), _LOG_ADVICE if go_back_state == "success" else _RESUME_ADVICE
    if Transition.DISCARD in TRANSITIONS[state]:
        file_uris = {entry.uri for place in (target, run_directory(target)) for entry in store.list(place)}
        is_job_running = go_back_state in ("success", "skipped")
        if (
            is_job_running
            and (advice_for_next_run := next_run_advice(target, _directory_of_followed_job(ti))) is not None
        ):
            advice += f"; or {advice_for_next_run}, unless somebody starts the job again without its state"
        if leftovers := file_uris - {follower_place(target), cut_over_place(target)}:
            advice += (
                f"; or remove the {counted(len(leftovers), 'file')} that the run left: "
                f'run "{DISCARD_TITLE}" for this target'
            )
    what = "nothing was published: the run ended before the job was cut over"
    return RescaleError(what, path=target, found=_failed_tasks(ti), advice=advice)


def _directory_of_followed_job(ti: Any) -> str:
    look_output: Summary = ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, LOOK_TASK))
    directory: str = look_output["before"]["directory"]
    return directory


def _refuse_unpublished(ti: Any, plan_output: Summary, *, has_summary: bool) -> None:
    """Raise an error unless the result exists.

    If this run has started a job from the result, a missing result is no error: the job may have deleted it.
    `has_summary` tells whether the task that publishes the result (`_published_summary`) finished in this run.
    """
    from rescale.airflow.rejection import unpublished_clause
    from rescale.runstate.documents import load_plan
    from rescale.runstate.publication import is_published, was_published
    from rescale.storage.store import exists

    plan = load_plan(plan_output["plan"]) if exists(plan_output["plan"]) else None
    if plan is not None and is_published(plan):
        return
    if not has_summary and (plan is None or not was_published(plan)):
        raise RescaleError(
            unpublished_clause(plan_output["target"], plan_output["digest"]),
            path=plan_output["target"],
            found=_failed_tasks(ti),
            advice=_RESUME_ADVICE,
        )
    if output_of_any(ti, HAND_OVER_TASK, FOLLOW_TASK) is None:
        raise RequestError(
            "the result was published, but no longer exists",
            path=plan_output["target"],
            expected="the published `_metadata`",
            found="no `_metadata`, or another one: a job started from the result, or somebody else, has deleted it",
            advice="if a job was started from the result, nothing is wrong, though this run stays failed; if not, "
            "trigger a run with another target: clearing tasks of this run does not restore the result",
        )


def _refuse_unfinished(ti: Any, target: str, task_ids: Sequence[str]) -> None:
    """Raise an error for the first task in `task_ids` that has neither succeeded nor skipped itself.

    If the job was started again with its old shape, the error names all failed tasks, and does not advise to clear one
    of them. If the job was rescaled while it ran, `hand_over` and `announce` are not checked, because
    `follow_and_cut_over` did their work. Otherwise, `compare_all_records` is not checked: it had nothing to do.
    """
    # If the task `GO_BACK_TASK` has an output, it has started the job again.
    if ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, GO_BACK_TASK)) is not None:
        what = "the result was published, but the job was started again with its old shape"
        raise RescaleError(what, path=target, found=_failed_tasks(ti), advice=_LOG_ADVICE)
    was_followed = ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, FOLLOW_TASK)) is not None
    ignored_tasks = {HAND_OVER_TASK, ANNOUNCE_TASK} if was_followed else {VERIFY_TASK}
    for task_id in [sibling_task_id(ti.task_id, name) for name in task_ids if name not in ignored_tasks]:
        if ti.xcom_pull(task_ids=task_id) is None and ti.xcom_pull(task_ids=task_id, key=NOTHING_TO_DO_KEY) is None:
            raise RescaleError(
                f"the result was published, but the task {task_id!r} did not succeed",
                path=target,
                found=_failed_tasks(ti),
                advice=f"read its log, then clear the tasks {task_id!r} and {ti.task_id!r}",
            )

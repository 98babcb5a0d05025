"""The tasks of a running job's rescale that are no other rescale's: the look before, and a word at the end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from airflow.sdk import Context

from rescale.errors import RequestError
from rescale.orchestration.ending import end_task
from rescale.orchestration.filled_form import (
    proof_of,
    refuse_silent_copy,
    refuse_unasked_drops,
    refuse_unknown_fields,
    request_of,
)
from rescale.orchestration.flink.flink_access import open_flink
from rescale.orchestration.flink.operators import GoBack
from rescale.orchestration.flink.questions import Answer
from rescale.orchestration.flink.rest import SavepointFormat, Taking
from rescale.orchestration.flink.running_job import Job
from rescale.orchestration.flink.stopping import look_at_job
from rescale.orchestration.job.canonical_savepoint import refuse_canonical
from rescale.orchestration.job.job_shape import check_proof, check_shape, has_shape
from rescale.orchestration.job.latest_checkpoint import latest_checkpoint
from rescale.orchestration.job.look_ahead import look_ahead
from rescale.orchestration.job.native_savepoint import why_nothing_is_lost
from rescale.orchestration.job_form import check_renames, hand_over_of, taking_of
from rescale.orchestration.savepoint_tasks import ANNOUNCE, Known, found_out
from rescale.orchestration.steps.attempts import ended_by_our_errors
from rescale.orchestration.steps.earlier_tasks import LOOK, PLAN, Summary, told_by
from rescale.orchestration.steps.rescale_task import NOTHING_TO_DO, rescale_task, skip_task
from rescale.planning.asked.request import Request
from rescale.storage.locations import join, normalise
from rescale.storage.store import open_store
from rescale.target.states import claim_on

log = logging.getLogger(__name__)

HAND_OVER, GO_BACK = "hand_over", "go_back"


class GoBackIfNeeded(GoBack):
    """Goes back unless the job was handed over, or was never to be stopped."""

    def execute(self, context: Context) -> Answer:
        with ended_by_our_errors():
            before = told_by(LOOK, self.before)
        if _was_handed_over(context["ti"], before):
            skip_task("there is nothing to go back from: the job was handed over")
        if before["taking"] == Taking.RUN_ON:
            skip_task("there is nothing to go back from: the job was not to be stopped")
        return super().execute(context)

    def _told(self, answer: Answer) -> Answer:
        if answer.get("went_back") is False:
            skip_task("there is nothing to go back from: the job was not stopped, and runs on")
        return super()._told(answer)


def _was_handed_over(ti: Any, before: Mapping[str, Any]) -> bool:
    """Whether this job was: what an earlier pass of the run has told stays until the task begins again."""
    told = ti.xcom_pull(task_ids=HAND_OVER)
    return told is not None and told.get("in_place_of", before["job_id"]) == before["job_id"]


def _look(known: Known, params: Any = None, dag: Any = None, ti: Any = None) -> Summary:
    """Does the job run, and is all there that it takes to start it again? Nothing is stopped before."""
    refuse_unknown_fields(params, dag.params)
    refuse_silent_copy(params)
    refuse_unasked_drops(params)
    savepoints = normalise(params["savepoints"])
    request = request_of(params, {"source": join(savepoints, "savepoint"), **found_out(known, ti)})
    hand_over = hand_over_of(params)
    taking = taking_of(params, hand_over)
    check_renames(request, hand_over)
    savepoint_format = SavepointFormat(params["savepoint_format"])
    before = look_at_job(params["flink"], params["job"], taking, savepoints, hand_over, savepoint_format)
    with open_flink(before.flink) as flink:
        job = flink.job(before.job_id)
        if job is not None:
            check_shape(job, request)
            check_proof(job, request, proof_of(params), savepoint_format)
            if has_shape(job, request):
                skip_task(_nothing_to_do(job))
            latest = latest_checkpoint(flink, job, request)
            if look_ahead(job, request, latest):
                skip_task(_nothing_to_do(job))
            if savepoint_format is SavepointFormat.CANONICAL:
                refuse_canonical(flink, job)
                why = "all state is in it, and all timers"
            else:
                why = why_nothing_is_lost(flink, job, request, latest)
            log.info("a %s savepoint loses nothing: %s", savepoint_format.value, why)
    if taking is not Taking.RUN_ON:
        _check_places(request)
    return {
        "before": msgspec.to_builtins(before),
        "hand_over": msgspec.to_builtins(hand_over),
        "parallelism": request.parallelism.get("", before.parallelism),
    }


def _nothing_to_do(job: Job) -> str:
    return f"nothing to do: the job {job.name!r} ({job.job_id}) has the shape already that is asked for"


def _check_places(request: Request) -> None:
    """The job is stopped only where its savepoint can be read, and the result written."""
    open_store(request.source).list(request.source)
    claimed = claim_on(request.target)  # by whatever plan: that of a new savepoint is another one
    if claimed is not None or open_store(request.target).list(request.target):
        raise RequestError(
            "the target is occupied",
            path=request.target,
            expected="an empty or absent directory: the job is stopped only where the result can be written",
            found=claimed,
            advice=f"name another target, or remove what an unpublished run left: rescale discard {request.target}",
        )


def job_end_task(may_have_nothing_to_do: Sequence[str], then: Sequence[str] = ()) -> Any:
    """As `end_task`, for a run that takes a job's savepoint: did it go through, and what runs now?"""
    return end_task([*may_have_nothing_to_do, PLAN], then=[HAND_OVER, ANNOUNCE, *then], remark=_what_runs)


def _what_runs(ti: Any) -> str:
    """What became of the job of a run that did not go through."""
    looked = ti.xcom_pull(task_ids=LOOK)
    if looked is None:
        return "the job was not touched"
    before, back = looked["before"], ti.xcom_pull(task_ids=GO_BACK)
    name = f"the job {before['name']!r}"
    if before["taking"] == Taking.RUN_ON:
        return f"{name} runs on"
    if _was_handed_over(ti, before):
        return f"{name} was handed over"
    if ti.xcom_pull(task_ids=GO_BACK, key=NOTHING_TO_DO) is not None:
        return f"{name} runs on"
    if back is not None:
        return f"{name} runs again: {back}"
    return f"{name} may not run, for going back failed: look at the task {GO_BACK}, and clear it"


look = rescale_task(_look, LOOK, "Look at the job", multiple_outputs=True)

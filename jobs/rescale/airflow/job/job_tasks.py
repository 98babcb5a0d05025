"""Tasks that only the rescale of a running job has: the first one, which inspects the job, and the last one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rescale.airflow.ending import end_task
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.job_record import JobRecord, recorded_job, refuse_handed_over, stopped_job
from rescale.airflow.flink.questions import describe_answer
from rescale.airflow.flink.stopping import JobToRestart, job_to_restart_of, started_job_reference
from rescale.airflow.forms.filled_form import check_changes, proof_of, refuse_unknown_fields, request_of
from rescale.airflow.forms.job_form import check_renames, hand_over_of, stop_mode_of
from rescale.airflow.forms.live_form import LiveRequest, live_request_of
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.job_operators import was_handed_over
from rescale.airflow.savepoint_tasks import PlaceXComs, pulled_places
from rescale.airflow.settings import settings
from rescale.airflow.steps.earlier_tasks import (
    ANNOUNCE_TASK,
    FOLLOW_TASK,
    GO_BACK_TASK,
    HAND_OVER_TASK,
    LOOK_TASK,
    PLAN_TASK,
    VERIFY_TASK,
    Summary,
    name_of_run,
    output_of_any,
)
from rescale.airflow.steps.rescale_task import NOTHING_TO_DO_KEY, rescale_task, skip_task
from rescale.flink.start import REPLAY_WARNING
from rescale.flink_rest.client import Flink, SavepointFormat, StopMode
from rescale.storage.locations import join
from rescale.text.errors import RequestError, RescaleError

if TYPE_CHECKING:
    from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
    from rescale.flink_rest.running_job import Job
    from rescale.planning.request.request import Request
    from rescale.planning.request.resolution import ResolvedRequest
    from rescale.snapshot.model import Snapshot

log = logging.getLogger(__name__)


def _look_at_job(place_xcoms: PlaceXComs, params: Any = None, dag: Any = None, ti: Any = None) -> Summary:
    """Checks that the job runs, can be rescaled as requested, and can be started again, before anything is stopped."""
    from rescale.airflow.claims import refuse_active_claim
    from rescale.airflow.flink.first_checkpoint import first_checkpoint_text
    from rescale.airflow.flink.inspection import inspect_job
    from rescale.airflow.flink.last_checkpoint import REPEATED_RECORDS
    from rescale.airflow.job.check_against_checkpoint import check_against_checkpoint
    from rescale.airflow.job.claim_mode import refuse_no_claim
    from rescale.airflow.job.followable import refuse_unfollowable_job
    from rescale.airflow.job.jar_options import log_jar_options
    from rescale.airflow.job.jar_plan import refuse_other_ids
    from rescale.airflow.job.job_shape import check_proof, check_shape, has_shape
    from rescale.airflow.job.latest_checkpoint import open_latest_checkpoint
    from rescale.planning.request.result_files import Files

    refuse_unknown_fields(params, dag.params)
    check_changes(params)
    if (stopped_job_of_run := stopped_job(name_of_run(ti))) is not None:
        return _output_of_look(
            stopped_job_of_run,
            request_of(params, {"source": stopped_job_of_run.directory, **pulled_places(place_xcoms, ti)}),
        )
    hand_over = hand_over_of(params)
    taking = stop_mode_of(params, hand_over)
    live_request = live_request_of(params)
    savepoint_format = SavepointFormat(params["savepoint_format"])
    old_job = inspect_job(params["flink"], params["job"], taking, params["savepoints"], hand_over, savepoint_format)
    request = request_of(params, {"source": join(old_job.directory, "savepoint"), **pulled_places(place_xcoms, ti)})
    old_job = msgspec.structs.replace(old_job, target=request.target)
    check_renames(request, hand_over)
    may_hold_rocksdb_files = taking is StopMode.CHECKPOINT or savepoint_format is SavepointFormat.NATIVE
    with open_flink(old_job.flink) as flink:
        job = flink.job(old_job.job_id)
        if job is not None:
            check_shape(job, request)
            check_proof(job, request, proof_of(params), may_hold_rocksdb_files=may_hold_rocksdb_files)
            if has_shape(job, request):
                skip_task(_nothing_to_do_text(job))
            refuse_no_claim(flink, job, hand_over, taking, refers_to_source=request.files is Files.REFER)
            if isinstance(hand_over, RunJar):
                log_jar_options(flink, job, hand_over)
            checkpoint = open_latest_checkpoint(flink, job, request)
            asks_for_approval = params["require_approval"] or settings().approval.required.always

            def further_check(resolved: ResolvedRequest) -> None:
                if isinstance(hand_over, RunJar):
                    refuse_other_ids(flink, hand_over, resolved)

            if check_against_checkpoint(
                job, request, checkpoint, asks_for_approval=asks_for_approval, further_check=further_check
            ):
                skip_task(_nothing_to_do_text(job))
            if live_request is not None:
                refuse_unfollowable_job(flink, job, request, checkpoint)
            if taking is StopMode.CHECKPOINT:
                _check_plan(checkpoint, request, old_job.directory, live_request)
                log.info("%s %s", REPEATED_RECORDS, first_checkpoint_text(flink, old_job.job_id))
            else:
                _check_savepoint(flink, job, request, checkpoint, savepoint_format)
    if taking is not StopMode.RUN_ON:
        refuse_handed_over(name_of_run(ti))
        refuse_active_claim(request.target, ti)
        _check_places(request, None if live_request is None else old_job.directory)
    return _output_of_look(old_job, request)


def _output_of_look(old_job: JobToRestart, request: Request) -> Summary:
    return {
        "before": msgspec.to_builtins(old_job),
        "hand_over": msgspec.to_builtins(old_job.hand_over),
        "parallelism": request.parallelism.get("", old_job.parallelism),
    }


def _check_savepoint(
    flink: Flink,
    job: Job,
    request: Request,
    checkpoint: Snapshot | UnreadableCheckpoint,
    savepoint_format: SavepointFormat,
) -> None:
    """Raise `RequestError` if a savepoint of this format would lose state or could not be rescaled."""
    from rescale.airflow.job.canonical_savepoint import refuse_canonical, refuse_timers_on_heap
    from rescale.airflow.job.native_savepoint import check_native_savepoint

    if savepoint_format is SavepointFormat.CANONICAL:
        refuse_canonical(flink, job)
        refuse_timers_on_heap(checkpoint, request)
        evidence_clause = "it holds all state and all timers"
    else:
        evidence_clause = check_native_savepoint(flink, job, request, checkpoint)
    log.info("a %s savepoint loses nothing: %s", savepoint_format.value, evidence_clause)


def _check_plan(
    checkpoint: Snapshot | UnreadableCheckpoint,
    request: Request,
    checkpoints_directory: str,
    live_request: LiveRequest | None,
) -> None:
    """Raise, before the job is stopped, the error that its plan would raise afterwards.

    The plan is tried with the job's newest checkpoint: the checkpoint before the cancel will have the same format.
    """
    from rescale.airflow.flink.last_checkpoint import with_newest_checkpoint
    from rescale.airflow.job.followable import refuse_heavy_plan
    from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
    from rescale.following.round_plan import can_have_rounds
    from rescale.planning.prepare import prepare

    if isinstance(checkpoint, UnreadableCheckpoint):
        if checkpoint.transient_error is not None:
            raise checkpoint.transient_error
        raise RequestError(
            "the source is to be the job's last checkpoint, but its latest checkpoint so far cannot be used",
            path=checkpoint.place,
            expected="a retained checkpoint that this worker can read",
            found=checkpoint.reason,
            advice='choose a savepoint under "What becomes of the job"',
        )
    copies_ahead = live_request is not None and not live_request.refers_to_source
    plan = with_newest_checkpoint(
        checkpoints_directory, lambda source: prepare(replace(request, source=source), copies_ahead=copies_ahead).plan
    )
    if live_request is not None and not can_have_rounds(plan):
        refuse_heavy_plan(plan)
    log.info("the job's latest checkpoint can be rescaled: %s", plan.source)


def _nothing_to_do_text(job: Job) -> str:
    return f"nothing to do: the job {job.name!r} ({job.job_id}) already has the requested shape"


def _check_places(request: Request, followed_directory: str | None = None) -> None:
    """Raise an error if the job's savepoint could not be read, or the target is occupied.

    If the run is to follow the job with checkpoints in `followed_directory`, the target may hold a last round of this
    job. For any other run, a target with a follower is occupied. Any other claim occupies the target: the new savepoint
    gives a new plan, which cannot resume the plan of that claim.
    """
    from rescale.following.leaving import refuse_taken_target
    from rescale.runstate.follower.rounds import refuse_followed_target
    from rescale.storage.store import open_store

    open_store(request.source).list(request.source)
    refuse_taken_target(request.target, followed_directory)
    if followed_directory is None:
        refuse_followed_target(request.target)


def job_end_task(skipping_task_ids: Sequence[str], task_ids_after_publication: Sequence[str] = ()) -> Any:
    """Return the last task (`end_task`) of a run that takes a job's savepoint; it also says what became of the job."""
    return end_task(
        [*skipping_task_ids, PLAN_TASK],
        task_ids_after_publication=[HAND_OVER_TASK, ANNOUNCE_TASK, VERIFY_TASK, *task_ids_after_publication],
        remark=_job_clause,
    )


def _job_clause(ti: Any) -> str:
    """Return a clause on what became of the job of a run."""
    look_output, run_name = ti.xcom_pull(task_ids=LOOK_TASK), name_of_run(ti)
    if look_output is None:
        recorded = recorded_job(run_name)
        if recorded is None or not recorded.is_stopped:
            return f"nothing is done to the job before the task {LOOK_TASK!r} has finished"
        return (
            f"the job {recorded.old_job.name!r} might not be running, because this run has stopped it: clear the "
            f"task {LOOK_TASK!r} and those after it, which go on with the job, or start the job by hand"
        )
    old_job, go_back_output = job_to_restart_of(look_output["before"]), ti.xcom_pull(task_ids=GO_BACK_TASK)
    job_text = f"the job {old_job.name!r}"
    if old_job.taking is StopMode.RUN_ON:
        return f"the run does not stop {job_text}: {REPLAY_WARNING}"
    if go_back_output is not None and go_back_output.get("in_place_of", old_job.job_id) == old_job.job_id:
        return f"{job_text} runs again: {describe_answer(go_back_output)}"
    # If tasks were cleared, the output may be from an earlier try and about another job.
    answer = output_of_any(ti, HAND_OVER_TASK, FOLLOW_TASK)
    if answer is not None and answer.get("in_place_of", old_job.job_id) == old_job.job_id:
        return f"{job_text} was handed over: {describe_answer(answer)}"
    if was_handed_over(JobRecord(run_name, old_job, ti)):
        return f"{job_text} was handed over, and is left alone"
    if ti.xcom_pull(task_ids=GO_BACK_TASK, key=NOTHING_TO_DO_KEY) is not None:
        return f"{job_text} still runs"
    if (result_job_reference := _result_job_reference(old_job, run_name)) is not None:
        result_clause = f"was started from the result ({result_job_reference})"
        return f"{job_text} {result_clause}; clear the task {GO_BACK_TASK!r} to start it with its old shape"
    return (
        f"{job_text} might not be running: read the log of the task {GO_BACK_TASK!r}, which has not succeeded, and "
        "clear it"
    )


def _result_job_reference(old_job: JobToRestart, run_name: str) -> str | None:
    """Return the job that this run has started from its result; None if it does not run, or Flink does not answer."""
    try:
        return None if old_job.target is None else started_job_reference(old_job, run_name, old_job.target)
    except RescaleError:
        return None


look = rescale_task(_look_at_job, LOOK_TASK, "Look at the job", multiple_outputs=True)

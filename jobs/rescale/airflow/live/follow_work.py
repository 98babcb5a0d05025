"""The work of the task that follows a running job with rounds, and cuts over to the new job once that is allowed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from rescale.airflow.assets import RESCALED_SAVEPOINT
from rescale.airflow.claims import identity_of_run
from rescale.airflow.flink.answer_watch import AnswerWatch
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.questions import Answer, describe_answer
from rescale.airflow.flink.stopping import JobToRestart, job_to_restart_of
from rescale.airflow.forms.live_form import followed_options, live_request_of
from rescale.airflow.live.cut_over import CutOver
from rescale.airflow.live.mover import open_mover
from rescale.airflow.live.stopwatch import Stopwatch
from rescale.airflow.live.watch import Watch, WindowClosedError
from rescale.airflow.reports.report_link import REPORT_KEY, ReportPlace
from rescale.airflow.savepoint_work import add_event
from rescale.airflow.steps.earlier_tasks import FOLLOWED_TARGET_KEY, LOOK_TASK, Summary, required_output
from rescale.following.follower import Follower
from rescale.options.profiles import use_targets
from rescale.plan.plan import Plan
from rescale.planning.request.request import target_place
from rescale.report.stored import put_report
from rescale.runstate.certificate import read_certificate
from rescale.runstate.documents import document_sha256
from rescale.runstate.follower.removal import remove_follower
from rescale.runstate.follower.rounds import FollowedJob, described_rounds
from rescale.runstate.places import places_of
from rescale.runstate.removal import discard
from rescale.text.errors import RescaleError
from rescale.text.units import counted

log = logging.getLogger(__name__)


def follow_and_cut_over(
    known_places: Mapping[str, Any],
    cut_over_limits: tuple[datetime | None, datetime | None],
    look_output: Mapping[str, Any] | None,
    params: Mapping[str, Any],
    dag_run: Any,
    ti: Any,
    task_state: Any,
    inlet_events: Any,
    outlet_events: Any,
) -> Summary:
    """Follow the job that was inspected, cut it over, and return the summary of the result.

    `known_places` has the target if the form does not. `cut_over_limits` are the first and the last instant for a
    cut-over; None for no limit.
    """
    live_request = live_request_of(params)
    assert live_request is not None
    look_output = required_output(LOOK_TASK, look_output)
    old_job = job_to_restart_of(look_output["before"])
    target = target_place({**params, **known_places}["target"])
    use_targets([target])
    ti.xcom_push(FOLLOWED_TARGET_KEY, target)
    with _discarding_rounds_of_closed_window(target), open_mover(target, ti) as mover:
        follower = Follower(
            target,
            FollowedJob(old_job.directory, followed_options(params)),
            identity_of_run(dag_run),
            mover.move,
            lambda line: log.info("%s", line),
            params["accept_unconditional_publish"],
            lambda: watch.refuse_to_go_on(),
        )
        watch = Watch(old_job, follower, live_request, params, ti, task_state, *cut_over_limits)
        cut_over = CutOver(
            old_job, follower, mover, watch.record, live_request.give_up_seconds, look_output["parallelism"]
        )
        is_resumed = watch.is_cancelled()
        stopwatch = Stopwatch() if is_resumed else _follow_until_cut(watch, cut_over)
        plan, start_answer = cut_over.complete(stopwatch)
        downtime = None if is_resumed else round(stopwatch.elapsed_seconds, 1)
    downtime_text = (
        "for an unknown time, because an earlier try cancelled it" if downtime is None else f"for {downtime:.1f} s"
    )
    log.info("%s; the job stood still %s", describe_answer(start_answer), downtime_text)
    _report_and_remove_rounds(plan, params["connection"], ti)
    add_event(plan, RESCALED_SAVEPOINT, inlet_events, outlet_events)
    return {
        **_summary_of_run(plan, old_job, start_answer),
        "seconds": stopwatch.seconds_by_part,
        "downtime_seconds": downtime,
    }


@contextmanager
def _discarding_rounds_of_closed_window(target: str) -> Iterator[None]:
    """Remove base, rounds and pins if the block ends because a window has closed: the next run has another target."""
    try:
        yield
    except WindowClosedError:
        log.info("the window has closed: removed %s of this run", counted(len(discard(target).removed), "file"))
        raise


def _report_and_remove_rounds(plan: Plan, connection: str | None, ti: Any) -> None:
    """Put the report beside the published result, then remove the follower's files, even if the report failed."""
    with _logging_final_errors():
        log.info("%s", put_report(plan, rounds=described_rounds(plan.target)))
        ti.xcom_push(REPORT_KEY, msgspec.to_builtins(ReportPlace(plan.target, plan.digest, connection)))
    with _logging_final_errors():
        remove_follower(plan.target)


@contextmanager
def _logging_final_errors() -> Iterator[None]:
    """Log a final error of the block, so that the run does not fail while the new job runs; raise other errors."""
    try:
        yield
    except RescaleError as error:
        if not error.is_final:
            raise
        log.warning("the job was handed over, but %s", error)


def _follow_until_cut(watch: Watch, cut_over: CutOver) -> Stopwatch:
    """Follow the job until it can be cut over, and cancel it. Return the stopwatch of the cut-over."""
    watch.refuse_ended_job()
    if watch.has_rounds:
        cut_over.mover.rounds_runner.begin()
    with watch.follower.following(pins_checkpoints=watch.has_rounds):
        while True:
            watch.follow()
            watch.refuse_ended_job()
            newest_round = watch.follower.newest_round() if watch.has_rounds else None
            with open_flink(watch.old_job.flink) as flink, AnswerWatch(flink, watch.old_job.job_id) as answers:
                is_ready = cut_over.prepare(newest_round, answers)
                if is_ready:  # the state may have grown, and the window of the run may have closed
                    watch.note_required_approval(cut_over.plan)
                    if watch.waits_for(newest_round) is None:
                        return cut_over.cancel(answers)
            if not is_ready:
                log.info("the cut-over is put off: much has changed since the last round, or the job made a checkpoint")
                if watch.has_rounds:
                    watch.follower.next_round()


def _summary_of_run(plan: Plan, old_job: JobToRestart, start_answer: Answer) -> Summary:
    """Return the summary of the run.

    It has the fields that the tasks `plan`, `publish` and `hand_over` return for a job that is stopped first.
    """
    certificate = places_of(plan).certificate
    return {
        "plan": places_of(plan).plan,
        "digest": plan.digest,
        "source": plan.source,
        "target": plan.target,
        "metadata_sha256": read_certificate(plan.target).candidate_sha256,
        "certificate": certificate,
        "certificate_sha256": document_sha256(certificate),
        "start": plan.start.command,
        "starting": plan.start._asdict(),
        **start_answer,
        "in_place_of": old_job.job_id,
    }

"""Watches over a followed job: decides when rounds are made, and what the cut-over waits for."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.job_record import JobRecord
from rescale.airflow.flink.last_checkpoint import cancel, take_checkpoint, with_newest_checkpoint
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.forms.live_form import CutOverRule, LiveRequest
from rescale.airflow.live.copying_ahead import copy_ahead
from rescale.airflow.live.round_display import RoundDisplay
from rescale.airflow.steps.earlier_tasks import ROUNDS_KEY, name_of_run
from rescale.airflow.steps.required_approval import approval_reason
from rescale.flink_rest.running_job import CANCELLING
from rescale.following.follower import Follower
from rescale.following.limits import pause_after
from rescale.following.round_line import last_round_phrase
from rescale.following.round_plan import can_have_rounds
from rescale.plan.plan import Plan
from rescale.runstate.certificate import certified_plan
from rescale.runstate.decisions import Decision, cut_over_decision
from rescale.runstate.follower.rounds import Round, RoundKind, round_target
from rescale.runstate.states import digest_of_claim
from rescale.text.errors import RequestError
from rescale.text.units import duration

log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_PAUSE_FACTOR, _MOST_PAUSE_SECONDS = 4.0, 60.0
"""Pause after a round that is short enough already: a multiple of its duration, and an upper limit in seconds."""
_SHORT_ROUND_SECONDS = 5.0
"""Longest duration of a last round, in seconds, that is short enough if the form names no limit."""

_CONVERGENCE_RATIO = 0.8
"""Rounds have converged when a round takes more than this fraction of the time of the round before."""


class WindowClosedError(RequestError):
    """Raised when a window has closed before the cut-over; the job was left alone."""


@dataclass
class Watch:
    """Watch over the job that `follower` follows, for a task instance `ti` with its `task_state` and form `params`.

    In a window, no cut-over begins before the instant `opens_at` or after `closes_at`; None means no limit.
    """

    old_job: JobToRestart
    follower: Follower
    live_request: LiveRequest
    params: Mapping[str, Any]
    ti: Any
    task_state: Any
    opens_at: datetime | None
    closes_at: datetime | None
    _previous_round_seconds: float | None = None
    _cached_plan: tuple[str, Plan] | None = None
    _checked_checkpoint_numbers: set[int | None] = field(default_factory=set, init=False)  # None if no rounds are made
    _needs_approval: bool = field(init=False)

    def __post_init__(self) -> None:
        shown_rounds = self.task_state.get(ROUNDS_KEY)  # by an earlier try of the task, whose question may be open
        self._needs_approval = shown_rounds is not None and shown_rounds["asks"]

    def is_cancelled(self) -> bool:
        """Return whether an earlier try of the task has cancelled the job; wait while the job is being cancelled.

        After a redeployment, Flink is not asked, because it may describe the new job under the same id (FLINK-35831).
        """
        if self.record.phase is None:
            return False
        if self.old_job.is_replaced:
            return True
        with open_flink(self.old_job.flink) as flink:
            job = flink.job_overview(self.old_job.job_id)
            if job is not None and not job.has_ended and job.state != CANCELLING:
                return False
            cancel(flink, self.old_job.job_id)
        return True

    @property
    def record(self) -> JobRecord:
        """The record of what the run has done to the job."""
        return JobRecord(name_of_run(self.ti), self.old_job, self.ti)

    def follow(self) -> None:
        """Make rounds until a cut-over may begin.

        Raises `RequestError` if somebody gives the cut-over up, the window closes, or the job ends.
        """
        self.refuse_to_go_on()
        if not self.has_rounds:
            self._copy_ahead()
            if self._wait_without_rounds():  # later checkpoints may have new files
                self._copy_ahead()
            return
        newest_round = self.follower.newest_round()
        if (
            newest_round is None
            or self.follower.has_checkpoint_after(newest_round)
            or not self.follower.is_of_this_start(newest_round)
        ):
            newest_round = self._next_round(newest_round)
        while (waits_for := self.waits_for(newest_round)) is not None:
            self.report(newest_round, waits_for)
            self._pause(newest_round)
            if self.waits_for(newest_round) is None:
                break
            newest_round = self._next_round(newest_round)
        self.report(newest_round, None)

    def refuse_to_go_on(self) -> None:
        """Raise `RequestError` if somebody gives the cut-over up, the window has closed, or the job has ended."""
        self.refuse_ended_job()
        self._refuse_closed_window()
        self._decision()

    @cached_property
    def has_rounds(self) -> bool:
        """Whether rounds are made.

        If no max parallelism changes, there are none: files are copied ahead, or the result refers to them.
        """
        return can_have_rounds(with_newest_checkpoint(self.old_job.directory, self._plan_full))

    def _copy_ahead(self) -> None:
        """Copy files of the job's checkpoints into the target.

        Does nothing if the result refers to the files, or if an earlier try has claimed the target for the last round.
        """
        if not self.live_request.refers_to_source and digest_of_claim(self.follower.target) is None:
            copy_ahead(self.old_job, self._plan_full, self.ti)

    def _plan_full(self, checkpoint: str) -> Plan:
        """Return the plan of a full run from a checkpoint; it is cached until another checkpoint is asked for."""
        if self._cached_plan is None or self._cached_plan[0] != checkpoint:
            self._cached_plan = (
                checkpoint,
                self.follower.plan_full(checkpoint, copies_ahead=not self.live_request.refers_to_source).plan,
            )
        return self._cached_plan[1]

    def _wait_without_rounds(self) -> bool:
        """Wait until the cut-over may begin, if no rounds are made before it; return whether it had to wait."""
        has_waited = False
        while (waits_for := self.waits_for(None)) is not None:
            has_waited = True
            self._display.show_without_rounds(waits_for, needs_approval=self.needs_approval(None))
            self.refuse_ended_job()
            time.sleep(_POLL_SECONDS)
        return has_waited

    def _next_round(self, previous_round: Round | None) -> Round:
        self._previous_round_seconds = (
            None
            if previous_round is None or previous_round.kind is RoundKind.BASE
            else previous_round.last_round_seconds
        )
        if previous_round is not None and not self.follower.has_checkpoint_after(previous_round):
            self.refuse_ended_job()
            with open_flink(self.old_job.flink) as flink:
                take_checkpoint(flink, self.old_job.job_id)
        return self.follower.next_round()

    def is_last_round_short(self, newest_round: Round) -> bool:
        """Return whether a last round after `newest_round` would be short enough.

        If the form sets no limit, it is short enough if it takes at most `_SHORT_ROUND_SECONDS`, or if rounds no longer
        get shorter. Always False for the base and the first round after it: that round moves all changes since the base
        was begun, and takes longer than the last round would. Also False for a round of an earlier try, because the
        duration of its predecessor is unknown.
        """
        last_round_seconds, previous_round_seconds, limit_seconds = (
            newest_round.last_round_seconds,
            self._previous_round_seconds,
            self.live_request.most_downtime_seconds,
        )
        if newest_round.kind is RoundKind.BASE or last_round_seconds is None or previous_round_seconds is None:
            return False
        if limit_seconds is not None:
            return last_round_seconds <= limit_seconds
        return (
            last_round_seconds <= _SHORT_ROUND_SECONDS
            or last_round_seconds > _CONVERGENCE_RATIO * previous_round_seconds
        )

    def waits_for(self, newest_round: Round | None) -> str | None:
        """Return what the cut-over waits for, or None if it may begin; `newest_round` is None if no rounds are made.

        Raises `RequestError` if somebody gives the cut-over up, or the window has closed.
        """
        self._refuse_closed_window()
        decision = self._decision()
        if newest_round is not None and not self.is_last_round_short(newest_round):
            limit_seconds = self.live_request.most_downtime_seconds
            if self._previous_round_seconds is None:
                return "another round"
            return "a shorter round" if limit_seconds is None else f"a round of at most {duration(limit_seconds)}"
        for earliest_time in (self.live_request.not_before, self.opens_at):
            if earliest_time is not None and datetime.now(UTC) < earliest_time:
                return f"{earliest_time:%Y-%m-%d %H:%M %Z}"
        return "an approval" if self.needs_approval(newest_round) and decision is None else None

    def _decision(self) -> Decision | None:
        """Return the approval of the cut-over, or None if there is no answer for this run.

        Raises `RequestError` if somebody has given the cut-over up in this run. If an approval is needed, also raises
        it for an answer in another run, which asked about its own rounds.
        """
        decision = cut_over_decision(self.follower.target)
        if decision is None:
            return None
        is_of_this_run = decision.by == self.follower.run_identity
        if is_of_this_run and decision.approved:
            return decision
        if not is_of_this_run and not self.needs_approval(self.follower.newest_round()):
            return None
        raise RequestError(
            "the cut-over is given up, and the job was left alone"
            if not decision.approved
            else "the approval of a cut-over in another run does not hold for this run, and the job was left alone",
            path=self.follower.target,
            found=decision,
            advice="discard the target before you trigger another run",
        )

    def _refuse_closed_window(self) -> None:
        """Raise `WindowClosedError` if no cut-over may begin any more."""
        if self.closes_at is None or datetime.now(UTC) <= self.closes_at:
            return
        newest_round = self.follower.newest_round()
        raise WindowClosedError(
            "the window closed before the cut-over, so the job was left alone",
            path=self.follower.target,
            expected=f"a cut-over before {self.closes_at:%Y-%m-%d %H:%M %Z}",
            found="no round"
            if newest_round is None
            else f"round {newest_round.number}; {last_round_phrase(newest_round)}",
            advice="let rounds begin earlier (begins_before), let the window close later, or allow more downtime "
            "(most_downtime)",
        )

    def needs_approval(self, newest_round: Round | None) -> bool:
        """Return whether the form, or a rule for all plans, requires an approval of the cut-over.

        `newest_round` is None if no rounds are made. Every round is checked, because the state may have grown.
        """
        if self._needs_approval or self.live_request.cut_over_rule is CutOverRule.APPROVED:
            return True
        checkpoint = None if newest_round is None else newest_round.checkpoint
        if checkpoint not in self._checked_checkpoint_numbers:
            self.note_required_approval(
                with_newest_checkpoint(self.old_job.directory, self._plan_full)
                if checkpoint is None
                else certified_plan(round_target(self.follower.target, checkpoint))
            )
            self._checked_checkpoint_numbers.add(checkpoint)
        return self._needs_approval

    def note_required_approval(self, plan: Plan) -> None:
        """If a plan needs an approval, let the cut-over wait for one, even if later plans need none.

        The question may already be open, and its answer must count.
        """
        reason = approval_reason(plan, self.params)
        if reason is not None and not self._needs_approval:
            log.info("the cut-over needs an approval: %s", reason)
            self._needs_approval = True

    def report(self, newest_round: Round, waits_for: str | None) -> None:
        """Show a round, and what the cut-over waits for after it; None if the cut-over begins."""
        is_short, needs_approval = self.is_last_round_short(newest_round), self.needs_approval(newest_round)
        self._display.show(newest_round, waits_for, is_short=is_short, needs_approval=needs_approval)

    @cached_property
    def _display(self) -> RoundDisplay:
        return RoundDisplay(self.old_job, self.follower, self.ti, self.task_state)

    def _pause(self, newest_round: Round) -> None:
        """Wait until the next round is due, or until the cut-over may begin.

        After a round that is not short enough, the next round is due at once. After a short one, it is due when a pause
        is over and the job has made another checkpoint. In both cases, the form's limit for bytes a second may cause a
        longer pause.
        """
        is_short = self.is_last_round_short(newest_round)
        pause_seconds = min(_MOST_PAUSE_SECONDS, _PAUSE_FACTOR * (newest_round.seconds or 0.0)) if is_short else 0.0
        deadline = time.monotonic() + max(
            pause_seconds, pause_after(newest_round, self.live_request.most_bytes_per_second)
        )
        while time.monotonic() < deadline and self.waits_for(newest_round) is not None:
            self.refuse_ended_job()
            time.sleep(_POLL_SECONDS)
        while (
            is_short
            and not self.follower.has_checkpoint_after(newest_round)
            and self.waits_for(newest_round) is not None
        ):
            self.refuse_ended_job()
            time.sleep(_POLL_SECONDS)

    def refuse_ended_job(self) -> None:
        """Raise `RequestError` if the job has ended."""
        with open_flink(self.old_job.flink) as flink:
            job = flink.job_overview(self.old_job.job_id)
        if job is None or job.has_ended:
            raise RequestError(
                "the job has ended while it was followed",
                path=self.old_job.flink,
                operator=self.old_job.name,
                expected="a running job",
                found="a job that Flink does not know" if job is None else job.state,
                advice="if it was cancelled on purpose, use a follower on a command line instead: when you finish it, "
                "it makes the result from the job's last checkpoint. If not, start the job again, and run with another "
                "target",
            )

"""The cut-over: from the cancel of the old job to the start of the new one.

The last round, which moves the last changes of state, is made while the job still runs, right before the cancel. So the
job stands still only for the cancel, the publication and the start. Flink caches its answers about checkpoints, and the
start needs an answer from after the cancel. So the cancel waits until Flink's cached answer is about to expire
(`answer_watch`). If the job makes another checkpoint during this wait, one more round comes first. If this happens
again and again, or right before the job's end, the last round comes after the cancel. In all cases, the new job
processes the records after the last checkpoint again.

All of the cut-over is done in one task, because Airflow needs seconds from one task to the next. Each part can be
repeated: if the task is killed, its next try resumes. If a part fails, or takes too long, the job is started again from
its last checkpoint, with its old shape, and another run can go on with the rounds. The restarted job does not own that
checkpoint (NO_CLAIM): Flink does not delete it, so the task `go_back` can start the job from it again. Once the new job
has run, further tries of the task only look for it: a job that was handed over is neither taken back nor started once
more.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from rescale.airflow.flink.answer_watch import AnswerWatch, first_fresh_request_time
from rescale.airflow.flink.checkpoint_stop import checkpoint_for_restart
from rescale.airflow.flink.final_checkpoint import checkpoint_number, final_checkpoint, refuse_later_snapshot
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.job_record import JobRecord, Phase
from rescale.airflow.flink.last_checkpoint import cancel, take_source_checkpoint, with_newest_checkpoint
from rescale.airflow.flink.questions import Answer, FlinkQuestion, LostJobError, RedeploymentQuestion, describe_answer
from rescale.airflow.flink.stopping import JobToRestart, end_pending_work, go_back, hand_job_over, refuse_running_job
from rescale.airflow.live.mover import Mover
from rescale.airflow.live.next_run import leave_rounds
from rescale.airflow.live.stopwatch import Stopwatch
from rescale.following.follower import Follower
from rescale.following.round_plan import LIGHT_BYTES, RoundPlan
from rescale.plan.plan import Plan
from rescale.runstate.follower.removal import remove_follower
from rescale.runstate.follower.rounds import Round, RoundKind
from rescale.runstate.publication import publish, published_plan
from rescale.snapshot.reading.discovery import newest_complete_checkpoint
from rescale.text.advice import Advice
from rescale.text.errors import RequestError, RescaleError, StoreError

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_KUBERNETES_POLL_SECONDS = 1.0
_GO_BACK_TIMEOUT_SECONDS = 1800
_MOST_ATTEMPTS = 4
"""Number of attempts to make the last round while the job runs; after them, the last round follows the cancel."""

_PATIENT_ATTEMPTS = 2
"""Number of the first attempts that wait until Flink's cached answer is about to expire.

Later attempts do not wait, because the job may make another checkpoint in this time.
"""

_MOST_GROWTH_FACTOR = 2
"""Upper bound of the bytes that the last round reads, as a multiple of those that the round before it has read."""

_RETRY_PAUSE_SECONDS = 0.5
"""Pause before a part that failed with a transient error is repeated."""


class WentBackError(RequestError):
    """Raised when a cut-over has failed, and the job was started again with its old shape."""


class MovesAllStateError(RequestError):
    """Raised when the last round cannot continue the round before it, and would have to move all state."""


@dataclass
class CutOver:
    """A cut-over of the job that `follower` follows.

    `record` tells later tries, and the task that goes back, what was done to the job. The new job has to run within
    `give_up_seconds` from the start of the cancel. `parallelism` is the default parallelism of the new job; None for
    the most frequent parallelism of its operators.
    """

    old_job: JobToRestart
    follower: Follower
    mover: Mover
    record: JobRecord
    give_up_seconds: float
    parallelism: int | None
    _round_plan: RoundPlan | None = field(default=None, init=False)
    _is_last_round_made: bool = field(default=False, init=False)
    _missed_attempt_count: int = field(default=0, init=False)
    _completed_number: int | None = field(default=None, init=False)
    _first_fresh_time: float | None = field(default=None, init=False)
    """Time from which Flink's answers show the job's end."""

    def prepare(self, newest_round: Round | None, answers: AnswerWatch) -> bool:
        """Let the job make a checkpoint, and make the last round from it. Return whether the job may be cancelled now.

        `newest_round` is None if no rounds are made. The last round is only made if it would not read many more bytes
        than `newest_round`. The first `_PATIENT_ATTEMPTS` then wait until Flink's cached answer, which `answers`
        watches, is about to expire.

        Returns False if another round has to come first. Either the last round would read too much, or the attempt has
        failed: the last round cannot continue `newest_round`, or the job has made another checkpoint meanwhile. After
        `_MOST_ATTEMPTS` failed attempts, returns True without a last round, which then follows the cancel.
        """
        with open_flink(self.old_job.flink) as flink:
            self._completed_number = take_source_checkpoint(flink, self.old_job.job_id, self.old_job.directory)
        try:
            self._round_plan = round_plan = with_newest_checkpoint(
                self.old_job.directory, lambda _: self._plan_last_round()
            )
        except MovesAllStateError as error:  # Flink may have rescaled the job since `newest_round`
            if newest_round is None or self._missed_attempt_count == _MOST_ATTEMPTS:
                raise
            self._missed_attempt_count += 1
            log.warning("%s", error)
            return False
        bytes_to_read = round_plan.prepared.plan.bytes_compared
        if newest_round is not None and bytes_to_read > max(LIGHT_BYTES, _MOST_GROWTH_FACTOR * newest_round.bytes_read):
            return False
        if self._missed_attempt_count == _MOST_ATTEMPTS:
            return True
        try:
            self.follower.move_last(round_plan)
        except RescaleError:  # Flink deletes a checkpoint once there is a newer one
            if self._is_from_newest_checkpoint(round_plan):
                raise
        if self._missed_attempt_count < _PATIENT_ATTEMPTS and self._is_from_newest_checkpoint(round_plan):
            answers.wait_until_answer_expires_soon()
        self._is_last_round_made = self._is_from_newest_checkpoint(round_plan)
        self._missed_attempt_count += not self._is_last_round_made
        return self._is_last_round_made

    @property
    def plan(self) -> Plan:
        """The plan that `prepare` has made for the last round."""
        assert self._round_plan is not None
        return self._round_plan.prepared.plan

    def cancel(self, answers: AnswerWatch) -> Stopwatch:
        """Cancel the job, and return the stopwatch of the cut-over, which starts with the cancel."""
        self.record.note_stop(self._completed_number)
        stopwatch = Stopwatch()
        with open_flink(self.old_job.flink) as flink, stopwatch.time_part("cancel"):
            cancel(flink, self.old_job.job_id)
        job_end_time = time.monotonic()
        answers.end()
        self._first_fresh_time = answers.first_fresh_request_time(job_end_time)
        return stopwatch

    def complete(self, stopwatch: Stopwatch) -> tuple[Plan, Answer]:
        """Make the last round if it is not made yet, publish its result, and start the job from it.

        Returns the plan of the last round, and the answer about the new job. Raises `WentBackError` if this or an
        earlier try failed, and the job was started again with its old shape; the target may then belong to another run.
        Raises `RequestError` if an earlier try has started the new job, and the new job has ended.
        """
        phase = self.record.phase
        if phase is Phase.WENT_BACK:
            what = "the cut-over has already failed, and the job was started again with its old shape"
            raise WentBackError(what, path=self.follower.target, advice=self._leave_rounds())
        if phase is Phase.STARTED:
            return self._result_of_earlier_try()
        while True:
            try:
                return self._publish_and_start(stopwatch)
            except RescaleError as error:
                if error.is_final or stopwatch.elapsed_seconds + _RETRY_PAUSE_SECONDS > self.give_up_seconds:
                    log.error("the cut-over failed: %s", error)
                    raise self._restart_old_job(error) from None
                log.warning("the cut-over is tried again: %s", error)
                time.sleep(_RETRY_PAUSE_SECONDS)

    def _publish_and_start(self, stopwatch: Stopwatch) -> tuple[Plan, Answer]:
        start_request_time, is_replaced = time.monotonic(), self.old_job.is_replaced
        plan = published_plan(self.follower.target, self.follower.run_identity)
        if plan is None:
            if is_replaced:
                raise RequestError("the job was redeployed before the result was published", path=self.follower.target)
            self._record_last_checkpoint()
            plan = self._publish_last_round(stopwatch)
        if not is_replaced:  # a replaced job was checked by an earlier attempt, and its JobManager is gone
            with stopwatch.time_part("check for a later snapshot"), open_flink(self.old_job.flink) as flink:
                self._first_fresh_time = self._first_fresh_time or first_fresh_request_time(flink, start_request_time)
                refuse_later_snapshot(flink, self.old_job.job_id, self._first_fresh_time, plan.checkpoint_id)
        with stopwatch.time_part("start"):
            start = plan.start._replace(parallelism=self.parallelism or plan.start.parallelism)
            run_name = self.record.run_name
            log.info("command that starts the job: %s", start.command)
            question_or_answer = hand_job_over(self.old_job.hand_over, start, run_name, self.old_job)
            answer = _wait_for_answer(question_or_answer, self.give_up_seconds - stopwatch.elapsed_seconds)
            # The task that goes back may have started the old job while the new job was starting.
            refuse_running_job(self.old_job, start, run_name)
        self.record.note_start()
        return plan, answer

    def _result_of_earlier_try(self) -> tuple[Plan, Answer]:
        """Return the plan of the result, and the answer about the job that an earlier try has started; start no job.

        If that job has ended, the rounds are removed before the error is raised: the earlier try may have left them.
        """
        plan = published_plan(self.follower.target, self.follower.run_identity)
        try:
            question = self.record.question_if_started(self.follower.target)
        except RequestError:
            if plan is not None:
                remove_follower(self.follower.target)
            raise
        if question is None or plan is None:
            raise RequestError(
                "this run has already handed the job over, but its result no longer exists: nothing is done to the job",
                path=self.follower.target,
                operator=self.old_job.name,
                expected="the published result",
            )
        return plan, _wait_for_answer(question, self.give_up_seconds)

    def _record_last_checkpoint(self) -> None:
        """Record the job's last completed checkpoint.

        Raises `RequestError` if it is not the newest one in the job's directory.
        """
        with open_flink(self.old_job.flink) as flink:
            last_checkpoint = final_checkpoint(
                flink, self.old_job.job_id, self.old_job.directory, self.record.checkpoint_number
            )
        self.record.note_checkpoint(checkpoint_number(last_checkpoint))

    def _publish_last_round(self, stopwatch: Stopwatch) -> Plan:
        round_plan = self._round_plan
        if round_plan is None or not self._is_from_newest_checkpoint(round_plan):
            with stopwatch.time_part("plan of the last round"):
                round_plan = self._plan_last_round()
            self._round_plan, self._is_last_round_made = round_plan, False
        if not self._is_last_round_made:
            self._make_last_round(round_plan, stopwatch)
        with stopwatch.time_part("publish"):
            publish(round_plan.prepared.plan, accept_unconditional=self.follower.accept_unconditional)
        return round_plan.prepared.plan

    def _make_last_round(self, round_plan: RoundPlan, stopwatch: Stopwatch) -> None:
        """Make the last round while the job stands still."""
        timer = threading.Timer(
            max(0.0, self.give_up_seconds - stopwatch.elapsed_seconds), self.mover.rounds_runner.end
        )
        timer.start()
        try:
            with stopwatch.time_part("last round and its proof"):
                self.follower.move_last(round_plan)
        finally:
            timer.cancel()
        self._is_last_round_made = True

    def _is_from_newest_checkpoint(self, round_plan: RoundPlan) -> bool:
        """Return whether the planned last round is from the job's newest checkpoint."""
        return newest_complete_checkpoint(self.old_job.directory) == round_plan.prepared.plan.checkpoint_id

    def _plan_last_round(self) -> RoundPlan:
        """Plan the last round. Raises `MovesAllStateError` if it would have to move all state."""
        round_plan = self.follower.plan_last()
        if round_plan.kind is RoundKind.BASE and not round_plan.is_light:
            raise MovesAllStateError(
                "the last round cannot continue the round before it, and to move all state would take too long",
                path=round_plan.prepared.plan.source,
                found=round_plan.reason,
            )
        return round_plan

    def _restart_old_job(self, error: RescaleError) -> WentBackError:
        """Start the job again with its old shape, and return the error with which the run fails."""
        self._end_pending_work()
        question_or_answer = go_back(
            self.old_job, self.record.run_name, checkpoint_for_restart(self.old_job, self.record.checkpoint_number)
        )
        answer = _wait_for_answer(question_or_answer, _GO_BACK_TIMEOUT_SECONDS)
        log.info("the job runs again with its old shape: %s", describe_answer(answer))
        if answer.get("went_back") is not False:
            self.record.note(Phase.WENT_BACK)
        next_run_advice = self._leave_rounds()
        # Flink may have carried out a request to start the new job long after that request timed out.
        self._end_pending_work()
        what = f"the cut-over failed, and the job runs again with its old shape: {error.what}"
        advice = Advice(error.advice, "; then ", next_run_advice) if error.advice else next_run_advice
        return error.recast(WentBackError, what, advice=advice)

    def _end_pending_work(self) -> None:
        """End the new job, which must not run beside the old one, and wait for its end."""
        while (pending_question := end_pending_work(self.old_job, self.record.run_name)) is not None:
            _wait_for_answer(pending_question, _GO_BACK_TIMEOUT_SECONDS)

    def _leave_rounds(self) -> str:
        """Leave the rounds to another run, and return the advice to trigger it."""
        return leave_rounds(self.follower.target, self.old_job.directory, self.follower.run_identity)


def _wait_for_answer(question_or_answer: FlinkQuestion | dict[str, Any], timeout_seconds: float) -> Answer:
    """Wait for the answer to a question, and return it.

    Raises `StoreError` if there is none within `timeout_seconds`, and `LostJobError` at once.
    """
    deadline = time.monotonic() + timeout_seconds
    while not isinstance(question_or_answer, dict):
        try:
            answer = question_or_answer.ask()
        except LostJobError:
            raise
        except StoreError as error:
            log.warning("%s", error)
            answer = None
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            raise StoreError(
                f"timed out while waiting for {question_or_answer.waits_for}",
                found=f"no answer in {timeout_seconds:.0f} s",
            )
        time.sleep(_KUBERNETES_POLL_SECONDS if isinstance(question_or_answer, RedeploymentQuestion) else _POLL_SECONDS)
    return question_or_answer

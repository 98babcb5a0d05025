"""The follower: checkpoint after checkpoint of a running job becomes a round beside a target.

A full run makes the base from the first complete checkpoint. Each newer checkpoint becomes a round, which continues the
round before. A round is a published result of its own, in a place that no job restores from. Each round takes a free
level of the RocksDB databases. Once no level is left to spare, the next round continues the first round after the base
instead: it has all changes since then, and replaces the rounds in between. A checkpoint that cannot continue any round
becomes a new base. Files beside the target record progress (`runstate.follower`).

A round refers to the SST files of the round before it. The last round must not depend on other rounds. So their SST
files are copied into the target while the job still runs (`runstate.preparation`).

The proof of a round compares the keys that have changed, but cannot show that no changed key was missed. So, while the
job runs, every record of the first round after a base is compared with its checkpoint, too. All later rounds continue
that round, so they would keep a wrong row of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from rescale.following.comparison import compare_records
from rescale.following.failures import removing_failed, removing_failed_last
from rescale.following.leaving import finish_discard, holds_last_round, may_be_discarded, refuse_taken_target
from rescale.following.limits import Limits, awaited_event, pause_after
from rescale.following.prediction import with_duration
from rescale.following.round_description import complete_newest_round, describe_round
from rescale.following.round_files import copy_ahead, remove_unneeded_rounds
from rescale.following.round_plan import RoundPlan, plan_round, refuse_unreadable_rounds
from rescale.following.starts import (
    forget_earlier_start,
    have_numbers_restarted,
    last_checkpoint_number,
    refuse_no_checkpoint_directory,
    take_over,
    waiting_sentence,
)
from rescale.options.profiles import use_targets
from rescale.options.rows import OPTIONS
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.planning.prepare import PreparedPlan, prepare
from rescale.planning.request.request import Request, request_of_values
from rescale.planning.request.surgery_request import Values
from rescale.runstate.certificate import read_certificate
from rescale.runstate.claim import claim
from rescale.runstate.follower.pins import PinnedCheckpoint, Pins
from rescale.runstate.follower.removal import remove_follower
from rescale.runstate.follower.rounds import (
    FollowedJob,
    Round,
    begin_following,
    followed_job,
    newest_round,
    refuse_another_job,
    round_target,
    write_round,
)
from rescale.runstate.places import rounds_place
from rescale.runstate.preparation import remove_preparation
from rescale.runstate.publication import publish, was_published
from rescale.runstate.removal import discard
from rescale.runstate.states import State, digest_of_claim, state_of
from rescale.runstate.target_safety import mark_documents
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.discovery import (
    checkpoint_directory,
    complete_checkpoints,
    newest_complete_checkpoint,
    refuse_two_starts,
)
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError

POLL_SECONDS = 1.0
_MOST_ATTEMPTS = 5
"""Largest number of attempts to pin a checkpoint: Flink may delete some of its files before its `_metadata`."""

Mover = Callable[[Plan, Proof], None]
"""Function that moves the state of a claimed plan and certifies the result."""


@dataclass(frozen=True)
class Follower:
    """Follower of `job` that makes rounds beside `target`.

    `run_identity` identifies the run in claims, and `say` is called with sentences for the user. `while_waiting` is
    called again and again during the wait for a checkpoint; an error that it raises ends the wait.
    """

    target: str
    job: FollowedJob
    run_identity: dict[str, str]
    move: Mover
    say: Callable[[str], None]
    accept_unconditional: bool = False
    while_waiting: Callable[[], None] = lambda: None
    _copied_roots: set[int] = field(default_factory=set, init=False, repr=False, compare=False)
    _pins_lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def follow(self, limits: Limits, report: Callable[[Round, str], None]) -> None:
        """Make rounds until `limits` are reached; report each round, and what the follower waits for after it.

        Raises `RequestError` if another process finishes, discards or takes the target. Then no file of the follower is
        left.
        """
        with self.following():
            self._publish_due(limits)
            rounds_made, newest = 0, self.newest_round()
            if newest is not None and limits.max_rounds != 0:
                self.say(f"going on after round {newest.number}, waiting for a checkpoint after {newest.checkpoint}")
            while newest is None or limits.max_rounds is None or rounds_made < limits.max_rounds:
                rounds_made += newest is not None
                newest = self.next_round()
                pause_seconds = pause_after(newest, limits.pause_above)
                has_ended = limits.max_rounds is not None and rounds_made >= limits.max_rounds
                report(newest, "nothing" if has_ended else awaited_event(newest, pause_seconds))
                self._publish_due(limits)
                if not has_ended:
                    time.sleep(pause_seconds)

    @contextmanager
    def following(self, *, pins_checkpoints: bool = True) -> Iterator[None]:
        """Begin to follow the job, or go on, for the block; if this makes no rounds, `pins_checkpoints` may be False.

        Raises `RequestError` if another process finishes, discards or takes the target. Then no file of the follower is
        left.
        """
        self._begin()
        try:
            complete_newest_round(self.target)
            with self._pinning() if pins_checkpoints else nullcontext():
                yield
        except RescaleError:
            self._remove_late_files()
            raise
        self._remove_late_files()

    @contextmanager
    def _pinning(self) -> Iterator[None]:
        """Pin the flushed files of each checkpoint that the job completes while the block runs.

        If the flushed files of all checkpoints since the newest round are pinned, the next round need not read files
        that only compactions have rewritten.
        """
        block_ended = threading.Event()

        def pin_newest() -> None:
            while not block_ended.wait(POLL_SECONDS):
                with suppress(RescaleError), self._pins_lock:
                    refuse_another_job(self.target, self.job)
                    newest_number = newest_complete_checkpoint(self.job.checkpoints)
                    pinned_numbers = [*self._pins.checkpoint_numbers(), *self._pins.flushed_numbers()]
                    if newest_number is not None and newest_number > max(pinned_numbers, default=-1):
                        self._pins.pin_flushed(newest_number)

        thread = threading.Thread(target=pin_newest, name="pins", daemon=True)
        thread.start()
        try:
            yield
        finally:
            block_ended.set()
            thread.join()

    def newest_round(self) -> Round | None:
        """Return the newest round, or None before the base exists."""
        return newest_round(self.target)

    def is_of_this_start(self, newest: Round) -> bool:
        """Return whether the newest round is from the followed start of the job, and not from an earlier one."""
        return newest.checkpoint in self._pins.checkpoint_numbers()

    def has_checkpoint_after(self, newest: Round) -> bool:
        """Return whether the job has a newer checkpoint than the newest round's, even if the numbers restarted."""
        number = newest_complete_checkpoint(self.job.checkpoints)
        return (number is not None and number > newest.checkpoint) or have_numbers_restarted(
            self.job.checkpoints, newest
        )

    def next_round(self) -> Round:
        """Wait for a checkpoint after that of the newest round, and make its round.

        Raises `IntegrityError` if the round is the first one after a base, and differs from its checkpoint.
        """
        previous_round = self.newest_round()
        newest_number = -1 if previous_round is None else previous_round.checkpoint
        while True:
            pinned = self._next_pinned(newest_number)
            previous_round = self.newest_round()
            with removing_failed(self._pins, previous_round, self._prune, self.say):
                try:
                    planned = self._plan(pinned, previous_round)
                except UnsupportedError as error:
                    if previous_round is None:
                        raise
                    self.say(f"checkpoint {pinned.checkpoint} is skipped: {error.what}")
                    newest_number = pinned.checkpoint
                    continue
                finished_round = self._make_round(planned)
            self._prune(finished_round)
            copy_ahead(self.target, finished_round, self._copied_roots, self.say)
            return compare_records(self.target, finished_round, self.move, self.say)

    def plan_last(self) -> RoundPlan:
        """Plan the last round, from the newest checkpoint itself, not from its pins, into the target itself.

        Discards an unpublished result in the target that was made from an older checkpoint.
        """
        refuse_another_job(self.target, self.job)
        newest = complete_newest_round(self.target)
        number = last_checkpoint_number(self.job.checkpoints)
        source = checkpoint_directory(self.job.checkpoints, number)
        request, checkpoints_between = self._request(source, self.target), self._checkpoints_between(newest, number)
        planned = plan_round(request, self._base_uris(newest), checkpoints_between, reserved_levels=0)
        is_taken = state_of(self.target, planned.prepared.plan.digest) is State.TAKEN
        if is_taken and may_be_discarded(self.target, self.job):
            self.say("discarding an unpublished result of an older checkpoint")
            discard(self.target, keeps_follower=True)
        finish_discard(self.target)
        return planned

    def plan_full(self, checkpoint: str, *, copies_ahead: bool = False) -> PreparedPlan:
        """Plan a full run from a checkpoint, with the target itself as its target. Writes nothing.

        With `copies_ahead`, the plan is for files that are copied before the job ends (`preparation`).
        """
        return prepare(self._request(checkpoint, self.target), copies_ahead=copies_ahead)

    def take_over(self) -> None:
        """Go on with rounds of an earlier start of the job, which had its checkpoints in another directory.

        Raises `RequestError` if nothing shows that the rounds belong to an earlier start of this job. Does nothing if
        there are no rounds, if they belong to this start's directory, or if they were made with other options.
        """
        newest = complete_newest_round(self.target)
        if newest is not None and take_over(self.target, self.job, newest, self._allow_prefixes):
            begin_following(self.target, self.job, accept_unconditional=self.accept_unconditional)
            self.say(f"the job was started again, and its checkpoints are in {self.job.checkpoints} now")

    def _begin(self) -> None:
        self._request(self.job.checkpoints, self.target)  # this refuses options that contradict each other
        refuse_no_checkpoint_directory(self.job.checkpoints)
        self.take_over()
        refuse_taken_target(self.target, self.job.checkpoints)
        mark_documents(self.target)
        begin_following(self.target, self.job, accept_unconditional=self.accept_unconditional)
        finish_discard(self.target)

    def _refuse_lost_target(self) -> None:
        """Raise `RequestError` if another process has finished, discarded or taken the target.

        Another run may have looked for a follower right before this one began, and claimed the target since. Then that
        run keeps the target, and the files of the follower are removed. They stay while the run publishes its result,
        because it may still need them.
        """
        digest = digest_of_claim(self.target)
        is_lost = digest is not None and not holds_last_round(self.target, self.job.checkpoints)
        if is_lost and state_of(self.target, digest) is not State.PUBLISHING:
            remove_follower(self.target)
        refuse_another_job(self.target, self.job)

    def _remove_late_files(self) -> None:
        """Remove files that this follower wrote after another process had finished, discarded or taken the target."""
        if followed_job(self.target) is None:
            remove_follower(self.target)
            remove_preparation(self.target)
            refuse_another_job(self.target, self.job)

    def _request(self, source: str, target: str) -> Request:
        return request_of_values(source, target, _with_unset_values(self.job.options))

    @property
    def _pins(self) -> Pins:
        return Pins(self.target, self.job.checkpoints, tuple(self._allow_prefixes))

    @property
    def _allow_prefixes(self) -> tuple[str, ...]:
        return self._request(self.job.checkpoints, self.target).allow_prefixes

    def _base_uris(self, newest: Round | None) -> list[str]:
        """Return the URIs of the rounds that the next round may continue: the newest one, then its anchor."""
        if newest is None:
            return []
        checkpoint_numbers = dict.fromkeys((newest.checkpoint, newest.anchor))
        return [round_target(self.target, number) for number in checkpoint_numbers]

    def _next_pinned(self, newest_number: int) -> PinnedCheckpoint:
        """Wait for a checkpoint with a number above `newest_number`, and pin it."""
        if (pinned := self._pins.newest()) is not None and pinned.checkpoint > newest_number:
            return pinned
        tried_number, attempt, sentence, start_time = -1, 0, "", time.monotonic()
        checkpoint_numbers: list[int] = []
        while True:
            self._refuse_lost_target()
            earlier_numbers, checkpoint_numbers = checkpoint_numbers, complete_checkpoints(self.job.checkpoints)
            if checkpoint_numbers != earlier_numbers:
                refuse_two_starts(self.job.checkpoints, checkpoint_numbers)
            if checkpoint_numbers and checkpoint_numbers[-1] > newest_number:
                attempt = attempt + 1 if checkpoint_numbers[-1] == tried_number else 1
                tried_number = checkpoint_numbers[-1]
                try:
                    with self._pins_lock:
                        return self._pins.pin(tried_number)
                except SnapshotError as error:
                    if attempt == _MOST_ATTEMPTS:
                        raise
                    self.say(
                        f"the files of checkpoint {tried_number} could not be kept: {error.what}; trying the newest one"
                    )
            else:
                seconds = time.monotonic() - start_time
                last_sentence = sentence
                sentence = waiting_sentence(self.job.checkpoints, newest_number, checkpoint_numbers, seconds)
                if checkpoint_numbers and checkpoint_numbers[-1] < newest_number:
                    with self._pins_lock:
                        restart_sentence = forget_earlier_start(self._pins)
                    if restart_sentence is not None:
                        newest_number, sentence = -1, restart_sentence
                if sentence not in ("", last_sentence):
                    self.say(sentence)
            self.while_waiting()
            time.sleep(POLL_SECONDS)

    def _plan(self, pinned: PinnedCheckpoint, newest: Round | None) -> RoundPlan:
        target = round_target(self.target, pinned.checkpoint)
        request = replace(self._request(pinned.directory, target), moves=pinned.moves)
        checkpoints_between = self._checkpoints_between(newest, pinned.checkpoint)
        # The first round after a base becomes the anchor: joined rounds need another level above it.
        reserve = 2 if newest is not None and newest.compared is None else 1
        rounds = rounds_place(self.target)
        planned = plan_round(
            request, self._base_uris(newest), checkpoints_between, reserved_levels=reserve, reference_directory=rounds
        )
        if newest is None:
            refuse_unreadable_rounds(planned.prepared)
        return planned

    def _checkpoints_between(self, newest: Round | None, checkpoint: int) -> Iterable[Sequence[Snapshot]]:
        """Return the pinned checkpoints between the newest round and `checkpoint`, in batches."""
        return () if newest is None else self._pins.open_between(newest.checkpoint, checkpoint)

    def _make_round(self, planned: RoundPlan) -> Round:
        plan = planned.prepared.plan
        target = plan.target
        if not was_published(plan):
            # A plan with another base, or of another version of Rescale, may have claimed the target.
            if state_of(target, plan.digest) is State.TAKEN:
                remove_unneeded_rounds(self.target, self.newest_round())
            self._run(plan, planned.proof)
        finished_round = describe_round(plan, read_certificate(target), newest_round(self.target, plan.checkpoint_id))
        seconds = time.monotonic() - planned.start_time
        finished_round = with_duration(replace(finished_round, reason=planned.reason), seconds, time.time())
        write_round(self.target, finished_round)
        return finished_round

    def move_last(self, planned: RoundPlan) -> None:
        """Claim the target for the last round, then move and certify it."""
        claim(
            planned.prepared.plan,
            accept_unconditional=self.accept_unconditional,
            run_identity=self.run_identity,
            is_last_round=True,
        )
        with self.finishing(planned):
            self.move(planned.prepared.plan, planned.proof)

    def finishing(self, planned: RoundPlan) -> AbstractContextManager[None]:
        """Return a context for the move of the last round: if it fails for good, the next try continues no round."""
        return removing_failed_last(self._pins, self.newest_round, self._prune, planned)

    def _run(self, plan: Plan, proof: Proof) -> None:
        claim(plan, accept_unconditional=self.accept_unconditional, run_identity=self.run_identity)
        self.move(plan, proof)
        publish(plan, accept_unconditional=self.accept_unconditional)

    def _prune(self, newest: Round | None) -> None:
        """Remove rounds that no later round can continue, then the pins that only the removed rounds needed."""
        kept_rounds = remove_unneeded_rounds(self.target, newest)
        with self._pins_lock:
            newer_numbers = [number for number in self._pins.flushed_numbers() if newest and number > newest.checkpoint]
            self._pins.remove_all_but(kept_rounds, newer_numbers)

    def _publish_due(self, limits: Limits) -> None:
        """Publish a copy of the newest round, if one is due and not published yet."""
        newest = self.newest_round()
        if limits.publish_every is None or newest is None or not newest.number or newest.number % limits.publish_every:
            return
        source = round_target(self.target, newest.checkpoint)
        reference_options = _with_unset_values({"allow-prefix": [rounds_place(self.target)]})
        request = request_of_values(source, f"{self.target}-{newest.checkpoint}", reference_options)
        use_targets([self.target, request.target])
        plan = prepare(request).plan
        if not was_published(plan):
            has_database_files = any(operator.databases for operator in plan.operators)
            self._run(plan, Proof.FILES if has_database_files else Proof.RECORDS)
            self.say(f"the state of checkpoint {newest.checkpoint} is published: {plan.target}")


def _with_unset_values(options: Values) -> Values:
    return {**{row.name: row.unset_value for row in OPTIONS}, **options}

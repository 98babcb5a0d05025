"""The target of a follower: whether it is free for rounds, and what stays in it after the job was started again.

A follower ends if its job was started again in its old shape. Its rounds stay for a follower of the new start.
"""

from __future__ import annotations

from collections.abc import Mapping

from rescale.runstate.documents import load_plan
from rescale.runstate.follower.rounds import UNKNOWN_CHECKPOINTS, FollowedJob, end_following, followed_job
from rescale.runstate.places import Places, cut_over_place
from rescale.runstate.preparation import holds_only_prepared_files
from rescale.runstate.publication import withdraw
from rescale.runstate.removal import discard
from rescale.runstate.states import (
    TRANSITIONS,
    State,
    Transition,
    claim_on,
    digest_of_claim,
    is_being_discarded,
    state_of,
)
from rescale.runstate.target_safety import refuse_misplaced
from rescale.storage.locations import contains
from rescale.storage.store import exists
from rescale.text.advice import Advice, command
from rescale.text.errors import RequestError
from rescale.text.names import quoted


def leave(target: str, checkpoints: str, run_identity: Mapping[str, str]) -> None:
    """Stop following a job that was started again, and keep the rounds for a follower of its new start.

    The last round that the run `run_identity` has claimed is removed, even if it is published, because no job runs from
    it. Does nothing if another run has claimed the target, or if the target's follower does not follow `checkpoints`.
    """
    job, claim = followed_job(target), claim_on(target)
    if job is None or job.checkpoints != checkpoints or (claim is not None and claim.by != run_identity):
        return
    if claim is not None:
        if Transition.DISCARD in TRANSITIONS[state_of(target, claim.plan_digest)]:
            discard(target, keeps_follower=True)
        else:
            withdraw(load_plan(Places(target, claim.plan_digest).plan))
    finish_discard(target)
    end_following(target)


def finish_discard(target: str) -> None:
    """Finish a discard that was killed after it had removed the claim of a last round.

    Until then, the note that the discard left beside the target prevents new claims.
    """
    if digest_of_claim(target) is None and is_being_discarded(target):
        discard(target, keeps_follower=True)


def may_be_discarded(target: str, job: FollowedJob) -> bool:
    """Return whether the target is claimed for a last round of the followed job, and not published."""
    claim = claim_on(target)
    if claim is None or not claim.is_last_round or not exists(place := Places(target, claim.plan_digest).plan):
        return False
    is_of_job = contains(job.checkpoints, load_plan(place).source)
    return is_of_job and Transition.DISCARD in TRANSITIONS[state_of(target, claim.plan_digest)]


def holds_last_round(target: str, checkpoints: str) -> bool:
    """Return whether the target holds an unpublished last round of the job in the directory `checkpoints`.

    A follower of that job resumes it, or discards it if the job has made another checkpoint since.
    """
    current_job = followed_job(target)
    return current_job is not None and current_job.checkpoints == checkpoints and may_be_discarded(target, current_job)


def refuse_taken_target(target: str, checkpoints: str | None) -> None:
    """Raise `RequestError` if a new run could not use this target.

    A usable target has no claim, and no files except those that were copied ahead. If the new run follows the job with
    the checkpoint directory `checkpoints`, the target may also hold an unpublished last round of that job.
    `checkpoints` is None if the new run follows no job.
    """
    claim = claim_on(target)
    state = state_of(target, None if claim is None else claim.plan_digest)
    if state is State.FREE:
        refuse_misplaced(target)
    if state is State.FREE and holds_only_prepared_files(target):
        return
    if checkpoints is not None and holds_last_round(target, checkpoints):
        return
    content_by_state = {State.FREE: "other files", State.OCCUPIED: "a snapshot", State.PUBLISHED: "a published result"}
    advice = Advice("name another target")
    if claim is not None and Transition.DISCARD in TRANSITIONS[state]:
        advice = Advice(advice, "; if that run has ended, remove what it left: ", command("discard", quoted(target)))
    raise RequestError(
        "the target is occupied",
        path=target,
        expected="an empty or absent directory that no run has claimed",
        found=content_by_state.get(state, claim),
        advice=advice,
    )


def may_be_continued(target: str, checkpoints: str) -> bool:
    """Return whether another run may go on with the target's rounds of the job in the directory `checkpoints`.

    Returns False if a run has claimed the target, or if the rounds belong to another start of the job. Also returns
    False if a run has decided on the cut-over, because that decision would apply to the other run, too.
    """
    current_job = followed_job(target)
    if current_job is None or current_job.checkpoints not in (UNKNOWN_CHECKPOINTS, checkpoints):
        return False
    if claim_on(target) is not None or is_being_discarded(target):
        return False
    return not exists(cut_over_place(target)) and holds_only_prepared_files(target)

"""The end of a follower whose cut-over has failed: the job was started again, and its next start can be followed."""

from __future__ import annotations

from rescale.following.follower import Follower
from rescale.runstate.documents import load_plan
from rescale.runstate.follower.rounds import end_following, followed_job
from rescale.runstate.places import Places
from rescale.runstate.publication import withdraw
from rescale.runstate.removal import discard
from rescale.runstate.states import TRANSITIONS, Transition, claim_on, state_of


def leave_rounds(follower: Follower) -> None:
    """Stop following a job that was started again, and keep the rounds for a follower of that start.

    The last round is removed, even if it is published, because no job runs from it; a result of another run stays. Does
    nothing if the target no longer follows this job.
    """
    target = follower.target
    if followed_job(target) != follower.job:
        return
    holder = claim_on(target)
    if holder is not None and holder.by == follower.by:
        if Transition.DISCARD in TRANSITIONS[state_of(target, holder.plan)]:
            discard(target, keeps_follower=True)
        else:
            withdraw(load_plan(Places(target, holder.plan).plan))
    end_following(target)

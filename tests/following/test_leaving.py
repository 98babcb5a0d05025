"""A follower ends if its target is not free for its last round: it checks this when it begins and while it waits."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from rescale.following import follower as followers
from rescale.plan.proof import Proof
from rescale.runstate.claim import claim
from rescale.runstate.follower.rounds import begin_following, finished_round_checkpoints, followed_job
from rescale.runstate.places import pins_place, places_of, rounds_place, run_directory
from rescale.runstate.states import digest_of_claim
from rescale.storage.locations import join
from rescale.storage.store import open_store
from rescale.text.errors import RequestError
from support import snapshots
from support.checkpoints import Checkpoints
from support.followers import finish, follow, follower_of
from support.pipeline import certify, plan_rescale
from support.s3 import unprotected_store


def test_a_target_that_is_taken_is_refused(job: Checkpoints, home: str) -> None:
    claim(plan_rescale(snapshots.directory("2-finished"), join(home, "target"), ["3"]))
    with pytest.raises(RequestError):
        follow(follower_of(job, home), 0)


def test_a_target_that_a_run_of_the_same_job_has_claimed_is_refused(job: Checkpoints, home: str) -> None:
    """The follower's last round would discard the files that the run has moved."""
    follower = follower_of(job, home)
    claim(plan := plan_rescale(job.newest, follower.target, ["4"]))
    with pytest.raises(RequestError, match="the target is occupied") as caught:
        follow(follower, 0)
    assert f"rescale discard {follower.target}" in str(caught.value.advice)
    assert followed_job(follower.target) is None
    assert digest_of_claim(follower.target) == plan.digest


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("target/notes.txt", "the target is occupied"),
        ("target", "the target is a file"),
        ("_metadata", "must not lie inside a snapshot"),
    ],
)
def test_a_target_that_cannot_take_the_last_round_is_refused_while_the_job_runs(
    job: Checkpoints, home: str, file: str, message: str
) -> None:
    unprotected_store(home).put(join(home, file), b"mine")
    follower = follower_of(job, home)
    with pytest.raises(RequestError, match=message):
        follow(follower, 0)
    assert not open_store(home).list(run_directory(follower.target))


def test_a_follower_that_waits_leaves_its_files_to_a_last_round_that_is_about_to_be_published(
    job: Checkpoints, home: str
) -> None:
    """The process that publishes may be killed, or get an error from the store, and then needs these files again."""
    follower = follower_of(job, home)
    follow(follower, 0)

    def publish_soon() -> None:
        plan = follower.plan_last().prepared.plan
        if digest_of_claim(follower.target) is None:
            claim(plan, is_last_round=True)
            certify(plan, Proof.CHANGES)
            open_store(home).put(places_of(plan).publishing, b"")
        else:
            raise RequestError("the job has ended")

    with pytest.raises(RequestError, match="the job has ended"):
        follow(replace(follower, while_waiting=publish_soon), 1)
    assert followed_job(follower.target) == follower.job
    assert finished_round_checkpoints(follower.target) == [3]
    finish(follower)


def test_a_published_target_is_refused_as_such(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    finish(follower)
    with pytest.raises(RequestError, match="the target is occupied") as caught:
        follow(follower, 0)
    assert caught.value.found == "a published result"


@pytest.mark.parametrize("is_same_job", [False, True])
def test_follower_ends_if_a_run_that_began_at_the_same_time_has_claimed_the_target(
    job: Checkpoints, home: str, is_same_job: bool
) -> None:
    """The run looked for a follower right before there was one."""
    follower = follower_of(job, home)
    source = job.newest if is_same_job else snapshots.directory("2-finished")
    plan = plan_rescale(source, follower.target, ["3"])

    def begin_and_claim(*arguments: object, **options: object) -> None:
        begin_following(*arguments, **options)  # type: ignore[arg-type]
        claim(plan)

    with (
        patch.object(followers, "begin_following", begin_and_claim),
        pytest.raises(RequestError, match="taken by another run"),
    ):
        follow(follower, 0)
    assert digest_of_claim(follower.target) == plan.digest
    assert followed_job(follower.target) is None
    for place in (rounds_place(follower.target), pins_place(follower.target)):
        assert not open_store(home).list(place)

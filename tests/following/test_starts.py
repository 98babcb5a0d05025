"""A follower whose job is started again: in another directory, or with checkpoint numbers that restart."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.following import follower as followers
from rescale.following.leaving import leave
from rescale.plan.proof import Proof
from rescale.runstate.claim import claim
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import RoundKind, described_rounds, finished_round_checkpoints, followed_job
from rescale.runstate.publication import is_published, publish, published_plan
from rescale.runstate.states import State, state_of
from rescale.storage.locations import join
from rescale.storage.store import open_store
from rescale.text.errors import RequestError
from support.checkpoints import Checkpoints, checkpoints_in
from support.followers import FIXTURE, checkpoints_follow, finish, follow, follower_of, with_other_backends
from support.pipeline import certify
from support.slow import slow


def test_checkpoint_of_a_later_start_of_the_job_ends_the_follower(job: Checkpoints, home: str) -> None:
    """The later start counts its checkpoints from a lower number.

    The follower would wait for a higher number for ever, and finish with a checkpoint of the earlier start.
    """
    follower = follower_of(job, home)
    follow(follower, 0)
    time.sleep(1.1)  # stores have times in seconds
    job.copy_newest(2)
    for go_on in (lambda: follow(follower, 1), follower.plan_last, lambda: follow(follower_of(job, f"{home}/2"), 0)):
        with pytest.raises(RequestError, match="checkpoints of two starts of a job"):
            go_on()


def test_restarted_checkpoint_numbers_lead_to_a_new_base(job: Checkpoints, home: str) -> None:
    """The job was started without its state, in the same directory, and its earlier checkpoints are gone."""
    messages: list[str] = []
    follower = follower_of(job, home, messages)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    follow(follower, 1)
    (new_round,) = [new_round for new_round in described_rounds(follower.target) if new_round.checkpoint == 4]
    assert not follower.has_checkpoint_after(new_round)
    time.sleep(1.1)  # stores have times in seconds
    job.copy_newest(2)
    job.delete_checkpoint(4)
    assert follower.has_checkpoint_after(new_round)
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.number, new_round.checkpoint) == (RoundKind.BASE, 0, 2)
    assert any("restarted below 4, so the job was started without its last state" in line for line in messages)
    assert finished_round_checkpoints(follower.target) == [2]
    assert [new_round.checkpoint for new_round in described_rounds(follower.target)] == [2]
    assert Pins(follower.target, job.directory).checkpoint_numbers() == [2]
    checkpoints_follow(job, [3])
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.number, new_round.root) == (RoundKind.ROUND, 1, 2)
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


@pytest.mark.parametrize(
    ("removed_numbers", "sentence"),
    [
        ((4,), "waiting for a checkpoint after 4 in {}, whose newest one is 3: check that the job runs, and that no"),
        ((3, 4), "waiting for a checkpoint after 4 in {}, which has no complete checkpoint: check that the job runs"),
        ((), "going on after round 0, waiting for a checkpoint after 4"),
        ((), "waiting for a checkpoint after 4 in {}, for 10 minutes now; if the job was started again, "),
    ],
)
def test_follower_says_what_it_waits_for(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch, removed_numbers: Sequence[int], sentence: str
) -> None:
    """A job that was started again may have left its last checkpoint in the directory, or Flink has deleted it."""
    messages: list[str] = []
    follower = follower_of(job, home, messages)
    job.copy_newest(4)
    follow(follower, 0)
    for number in removed_numbers:
        job.delete_checkpoint(number)
    sleep, clock = Mock(side_effect=[None, None, KeyboardInterrupt]), Mock(side_effect=count(0, 400))
    monkeypatch.setattr(followers, "time", Mock(wraps=followers.time, sleep=sleep, monotonic=clock))
    with pytest.raises(KeyboardInterrupt):
        follow(follower, 1)
    assert [line.startswith(sentence.format(job.directory)) for line in messages].count(True) == 1, messages
    assert finished_round_checkpoints(follower.target) == [4], "an older checkpoint was taken for a newer one"


def test_follower_of_a_misspelt_directory_says_what_to_check(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    follower = follower_of(replace(job, directory=join(home, "jbo")), home, messages)
    monkeypatch.setattr(
        followers, "time", Mock(wraps=followers.time, sleep=Mock(side_effect=[None, KeyboardInterrupt]))
    )
    with pytest.raises(KeyboardInterrupt):
        follow(follower, 1)
    (line,) = messages
    assert line.startswith("waiting for the first complete checkpoint in ")
    assert line.endswith("/jbo: check that the job runs, and that its checkpoints are in this directory")


@pytest.mark.parametrize("was_published", [False, slow(True)])
def test_rounds_go_on_with_the_next_start_of_the_job(
    job: Checkpoints, home: str, tmp_path: Path, was_published: bool
) -> None:
    """The next start has another directory, and uploads all files again: the same bytes under other names."""
    follower = follower_of(job, home)
    follow(follower, 0)
    planned = follower.plan_last()
    failed_plan = planned.prepared.plan
    follower.move_last(planned)
    if was_published:
        publish(failed_plan)
    assert (published_plan(follower.target, follower.run_identity) is not None) == was_published
    leave(follower.target, job.directory, follower.run_identity)
    assert state_of(follower.target, failed_plan.digest) is State.FREE
    assert not [*open_store(home).list(follower.target)]
    job.delete()
    with pytest.raises(RequestError, match="the job was started again after its cut-over had failed"):
        follower.next_round()

    next_start = checkpoints_in(FIXTURE, join(home, "again"), tmp_path / "again")
    checkpoints_follow(next_start, [4])
    follower = follower_of(next_start, home)
    round_before = follower.newest_round()
    assert round_before is not None
    assert not follower.is_of_this_start(round_before)
    (new_round,) = follow(follower, 1)
    assert follower.is_of_this_start(new_round)
    assert (new_round.kind, new_round.number, new_round.root, new_round.bytes_read) == (RoundKind.ROUND, 1, 3, 0)
    pins = [Pins(follower.target, directory) for directory in (job.directory, next_start.directory)]
    assert [directory_pins.checkpoint_numbers() for directory_pins in pins] == [[3], [4]], (
        "the base needs the pin of the first start"
    )
    next_start.rewrite(with_other_backends)
    checkpoints_follow(next_start, [5])
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.root) == (RoundKind.BASE, 5)
    assert [directory_pins.checkpoint_numbers() for directory_pins in pins] == [[], [5]]
    finish(follower)
    validate_published(next_start.newest, follower.target, InProcessTasks(2, None))


def test_published_result_of_another_run_stays(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    plan_of_another_run = follower.plan_last().prepared.plan
    claim(plan_of_another_run, run_identity={"host": "there"})
    certify(plan_of_another_run, Proof.CHANGES)
    publish(plan_of_another_run)
    leave(follower.target, job.directory, follower.run_identity)
    assert is_published(plan_of_another_run)
    assert followed_job(follower.target) == follower.job

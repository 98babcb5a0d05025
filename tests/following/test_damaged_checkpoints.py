"""A follower goes on, or begins anew, after a checkpoint, a pin or a round that it cannot use."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.following import follower as followers
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import RoundKind, finished_round_checkpoints, round_target
from rescale.storage.locations import join
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, UnsupportedError
from support.checkpoints import Checkpoints
from support.followers import assert_rounds_are_whole, checkpoints_follow, finish, follow, follower_of
from support.pipeline import certify, move


def test_wait_for_a_checkpoint_after_one_that_is_skipped_ends_with_the_job(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that holds records in flight is skipped. The job may end before it makes another one."""
    job_ended = RequestError("the job has ended")
    messages: list[str] = []
    follower = replace(follower_of(job, home, messages), while_waiting=Mock(side_effect=job_ended))
    follow(follower, 0)
    checkpoints_follow(job, [4])
    monkeypatch.setattr(followers, "plan_round", Mock(side_effect=UnsupportedError("it holds records in flight")))
    with pytest.raises(RequestError, match="the job has ended"):
        follow(follower, 1)
    assert "checkpoint 4 is skipped: it holds records in flight" in messages


def test_base_is_made_from_the_newest_checkpoint_after_an_unsupported_one(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that holds records in flight ends a follower that has no base. The same command begins again."""
    follower = follower_of(job, home)
    with monkeypatch.context() as patches:
        patches.setattr(followers, "plan_round", Mock(side_effect=UnsupportedError("it holds records in flight")))
        with pytest.raises(UnsupportedError):
            follow(follower, 0)
    checkpoints_follow(job, [4])
    (base,) = follow(follower, 0)
    assert base.checkpoint == 4


def test_round_whose_files_were_damaged_is_made_again(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its moving steps have ended, so another try would compare the same files."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])

    def move_and_damage(plan: Plan, proof: Proof) -> None:
        move(plan, InProcessTasks())
        store = open_store(home)
        manifest_uri = next(entry.uri for entry in store.list(plan.target) if entry.uri.endswith("MANIFEST-000004"))
        content = store.read_all(manifest_uri, 1 << 20)[0]
        store.delete([manifest_uri])
        store.put(manifest_uri, content[:-1] + bytes([content[-1] ^ 1]))
        certify(plan, proof)

    with pytest.raises(IntegrityError):
        follow(replace(follower, move=move_and_damage), 1)
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.checkpoint) == (RoundKind.ROUND, 4)
    assert_rounds_are_whole(follower.target)


@pytest.mark.parametrize("step", ["plan", "move"])
def test_newer_checkpoint_is_taken_after_a_damaged_one(job: Checkpoints, home: str, step: str) -> None:
    """The repeated command takes the newest checkpoint: the pinned one, which is damaged, would fail each time."""
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    fail = Mock(side_effect=SnapshotError("the checksum of a block is wrong"))
    with pytest.MonkeyPatch.context() as patches:
        if step == "plan":
            patches.setattr(followers, "plan_round", fail)
        with pytest.raises(SnapshotError, match="checksum"):
            follow(replace(follower, move=fail) if step == "move" else follower, 1)
    checkpoints_follow(job, [5])
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.checkpoint) == (RoundKind.ROUND, 5)
    assert Pins(follower.target, job.directory).checkpoint_numbers() == [3, 5]
    assert_rounds_are_whole(follower.target)


@pytest.mark.parametrize("place", ["pin", "round"])
def test_new_base_is_made_after_a_file_that_every_round_reads_was_damaged(
    job: Checkpoints, home: str, place: str
) -> None:
    """Each later round continues the newest one, so it would fail at the same file again and again."""
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    pins = Pins(follower.target, job.directory)
    damaged_uri = (
        next(uri for uri in pins.file_uris(3) if "shared" in uri)
        if place == "pin"
        else round_target(follower.target, 3) + "/a.sst"
    )
    fail = Mock(side_effect=SnapshotError("the checksum of a block is wrong", path=damaged_uri))
    with pytest.raises(SnapshotError, match="checksum"):
        follow(replace(follower, move=fail), 1)
    assert (finished_round_checkpoints(follower.target), pins.checkpoint_numbers()) == ([], [])
    (base,) = follow(follower, 0)
    assert (base.kind, base.checkpoint) == (RoundKind.BASE, 4)
    assert_rounds_are_whole(follower.target)


@pytest.mark.parametrize("fault", ["records", "pin"])
def test_last_round_that_cannot_continue_the_rounds_moves_all_state_next_time(
    job: Checkpoints, home: str, fault: str
) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    pin_uri = next(iter(Pins(follower.target, job.directory).file_uris(3)))
    error = IntegrityError("a record differs") if fault == "records" else SnapshotError("no SST file", path=pin_uri)
    planned = follower.plan_last()
    assert planned.kind is RoundKind.ROUND
    with pytest.raises(type(error)) as caught:
        replace(follower, move=Mock(side_effect=error)).move_last(planned)
    assert "another try moves all state" in str(caught.value.advice)
    assert follower.plan_last().kind is RoundKind.BASE
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_rounds_stay_if_the_checkpoint_of_the_last_round_is_gone(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    gone_error = SnapshotError("a file is gone", path=join(job.newest, "_metadata"))
    with pytest.raises(SnapshotError, match="gone"):
        replace(follower, move=Mock(side_effect=gone_error)).move_last(follower.plan_last())
    assert finished_round_checkpoints(follower.target) == [3]

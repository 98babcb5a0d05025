"""Pins of the checkpoints that a job completes between two rounds, whose flushed files a round may read."""

from __future__ import annotations

import weakref
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.runstate.certificate import certified_plan
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import RoundKind, round_target
from rescale.snapshot.model import Snapshot
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support.changing_job import ChangingJob
from support.checkpoints import Checkpoints
from support.followers import checkpoints_follow, finish, follow, follower_of
from support.session_cluster import wait_until


def test_each_checkpoint_is_pinned_while_a_job_is_followed(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    pins = Pins(follower.target, job.directory)
    pinned_numbers: list[int] = []
    with follower.following():
        for number in (4, 5):
            checkpoints_follow(job, [number])
            pinned_numbers.append(number)
            wait_until(lambda: pins.flushed_numbers() == pinned_numbers, "the pin")
        assert follower.next_round().checkpoint == 5
        assert (pins.checkpoint_numbers(), pins.flushed_numbers()) == ([3, 5], [])


@pytest.mark.parametrize("most_between", [1, 2])
def test_too_many_checkpoints_in_between_are_not_opened(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch, most_between: int
) -> None:
    """Opening them takes time. Without them, the round reads all files that differ."""
    follower = follower_of(job, home)
    follow(follower, 0)
    for number in (4, 5):
        checkpoints_follow(job, [number])
        Pins(follower.target, job.directory).pin_flushed(number)
    checkpoints_follow(job, [6])
    monkeypatch.setattr("rescale.runstate.follower.pins._MOST_CHECKPOINTS_BETWEEN", most_between)
    open_flushed = Mock(wraps=Pins(follower.target, job.directory).open_flushed)
    monkeypatch.setattr(Pins, "open_flushed", open_flushed)
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, open_flushed.call_count) == (RoundKind.ROUND, 2 if most_between == 2 else 0)


def test_checkpoints_in_between_are_in_memory_a_few_at_a_time(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An opened checkpoint takes more memory than its `_metadata`."""
    follower = follower_of(job, home)
    follow(follower, 0)
    for number in range(4, 10):
        checkpoints_follow(job, [number])
        Pins(follower.target, job.directory).pin_flushed(number)
    checkpoints_follow(job, [10])
    open_flushed, references, alive_counts = Pins.open_flushed, list[weakref.ref[Snapshot]](), list[int]()

    def open_and_count(pins: Pins, number: int) -> Snapshot:
        snapshot = open_flushed(pins, number)
        references.append(weakref.ref(snapshot))
        alive_counts.append(sum(reference() is not None for reference in references))
        return snapshot

    monkeypatch.setattr("rescale.runstate.follower.pins._OPEN_AT_ONCE", 1)
    monkeypatch.setattr(Pins, "open_flushed", open_and_count)
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, len(alive_counts)) == (RoundKind.ROUND, 6)
    assert max(alive_counts) <= 2


def test_files_of_checkpoints_in_between_are_read_instead_of_compacted_ones(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the rounds, the job flushes rows, completes a checkpoint, and compacts all files."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    work = tmp_path / "databases"
    work.mkdir()
    job = ChangingJob(join(home, "job"), work, Random(3))
    job.complete_checkpoint()
    follower = follower_of(job.checkpoints, home)
    follow(follower, 0)
    job.complete_checkpoint()
    number_between = job.checkpoints.number
    Pins(follower.target, job.checkpoints.directory).pin_flushed(number_between)
    job.compact()
    job.complete_checkpoint()
    job.close()
    (new_round,) = follow(follower, 1)
    plan = certified_plan(round_target(follower.target, new_round.checkpoint))
    changes = [change for operator in plan.operators if operator.rekeying for change in operator.rekeying.changes]
    files_between = [plan.files[file.extent.file].uri for change in changes for file in change.transient]
    assert (new_round.kind, new_round.checkpoint) == (RoundKind.ROUND, number_between + 1)
    assert files_between
    finish(follower)
    validate_published(job.checkpoints.newest, follower.target, InProcessTasks(2, None))


def test_unreadable_checkpoint_in_between_is_left_out(job: Checkpoints, home: str) -> None:
    """A checkpoint in between only saves reading, so the round is made without it."""
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    pins = Pins(follower.target, job.directory)
    pins.pin_flushed(4)
    flushed_uri = join(pins.directory, "chk-4/_flushed")
    store = open_store(home)
    content = store.read_all(flushed_uri, 1 << 20)[0]
    store.delete([flushed_uri])
    store.put(flushed_uri, content[:-1])
    checkpoints_follow(job, [5])
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.checkpoint) == (RoundKind.ROUND, 5)

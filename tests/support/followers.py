"""A follower beside a job whose checkpoints are copies of a committed snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rescale.flink.metadata.checkpoint_metadata import Metadata
from rescale.following.follower import Follower
from rescale.following.limits import Limits
from rescale.plan.proof import Proof
from rescale.runstate.claim import claim
from rescale.runstate.follower.removal import remove_follower
from rescale.runstate.follower.rounds import FollowedJob, Round, RoundKind, finished_round_checkpoints, round_target
from rescale.runstate.places import rounds_place
from rescale.runstate.publication import publish
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import join
from support import edited
from support.checkpoints import Checkpoints
from support.pipeline import certify

FIXTURE = "2-rocksdb-incremental"
SHAPE = {"parallelism": ["3"], "max-parallelism": ["1000"], "key-hash": [], "uids": None, "allow-prefix": []}


def follower_of(job: Checkpoints, home: str, said: list[str] | None = None, shape: Any = SHAPE) -> Follower:
    say = ([] if said is None else said).append
    return Follower(join(home, "target"), FollowedJob(job.directory, shape), {"host": "here"}, certify, say)


def follow(follower: Follower, rounds: int, **limits: int) -> list[Round]:
    made: list[Round] = []
    follower.follow(Limits(rounds, **limits), lambda new, _: made.append(new))
    return made


def finish(follower: Follower) -> None:
    planned = follower.plan_last()
    claim(planned.prepared.plan, is_last_round=True)
    certify(planned.prepared.plan, Proof.RECORDS if planned.kind is RoundKind.BASE else Proof.CHANGES)
    publish(planned.prepared.plan)
    remove_follower(follower.target)


def assert_rounds_are_whole(target: str) -> None:
    """Check that all files of the finished rounds exist, in the round itself or in another one."""
    for number in finished_round_checkpoints(target):
        assert open_snapshot(round_target(target, number), [rounds_place(target)]).missing_files == ()


def checkpoints_follow(job: Checkpoints, numbers: Sequence[int]) -> None:
    """Copy the newest checkpoint to each of these numbers, and remove all older checkpoints each time."""
    for number in numbers:
        job.copy_newest(number)
        job.delete_older(number)


def with_other_backends(metadata: Metadata) -> Metadata:
    return edited.with_databases(metadata, lambda handle: replace(handle, backend_id="another"))

"""In the first round after a base, every record is compared with the checkpoint; in later rounds, only the changes."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from rescale.execution import steps
from rescale.execution.compare.validation.validation import SnapshotPair, validate_result
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.protocol import Tasks
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certificate import CertifiedOperator, read_certificate
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import RoundKind, described_rounds, finished_round_checkpoints, round_target
from rescale.runstate.pinned_snapshots import Base
from rescale.text.errors import IntegrityError, RequestError
from support.checkpoints import Checkpoints
from support.followers import (
    assert_rounds_are_whole,
    checkpoints_follow,
    finish,
    follow,
    follower_of,
    with_other_backends,
)
from support.pipeline import certify


def test_every_record_of_the_first_round_after_a_base_is_compared(job: Checkpoints, home: str) -> None:
    proofs: list[tuple[int, Proof]] = []

    def record_and_certify(plan: Plan, proof: Proof) -> None:
        proofs.append((plan.checkpoint_id, proof))
        certify(plan, proof)

    follower = replace(follower_of(job, home), move=record_and_certify)
    rounds = follow(follower, 0)
    for number in (4, 5):
        checkpoints_follow(job, [number])
        rounds += follow(follower, 1)
    assert [new_round.compared for new_round in rounds] == [None, 4, 4], "a round reports a comparison that has ended"
    checkpoints_follow(job, [6])
    job.rewrite(with_other_backends)
    follow(follower, 1)
    checkpoints_follow(job, [7])
    follow(follower, 1)
    records, changes = Proof.RECORDS, Proof.CHANGES
    assert proofs == [(3, records), (4, changes), (4, records), (5, changes), (6, records), (7, changes), (7, records)]
    assert [new_round.compared for new_round in described_rounds(follower.target)] == [None, 4, 4, None, 7]
    assert read_certificate(round_target(follower.target, 7)).proof == "records"
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_rounds_are_removed_if_a_record_of_one_differs(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])

    def fail_comparison(plan: Plan, proof: Proof) -> None:
        if plan.continued is not None and proof is Proof.RECORDS:
            raise IntegrityError("a record differs", path=plan.target)
        certify(plan, proof)

    with pytest.raises(IntegrityError) as caught:
        follow(replace(follower, move=fail_comparison), 1)
    assert "makes a new base; either the store has damaged a file" in str(caught.value.advice)
    assert finished_round_checkpoints(follower.target) == []
    (new_round,) = follow(follower, 0)
    assert (new_round.kind, new_round.checkpoint, new_round.compared) == (RoundKind.BASE, 4, None)


def test_rounds_stay_if_another_follower_removes_the_compared_one(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other follower of the target, such as a later try of a task, has made a newer round, and goes on with it."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])

    def overtake_comparison(plan: Plan, proof: Proof) -> None:
        if plan.continued is None or proof is not Proof.RECORDS:
            certify(plan, proof)
            return
        with patch.object(steps, "validate_result", validate_after_another_round):
            certify(plan, proof)

    def validate_after_another_round(pair: SnapshotPair, tasks: Tasks) -> list[CertifiedOperator]:
        with patch.object(steps, "validate_result", validate_result), patch.object(Pins, "remove_all_but"):
            checkpoints_follow(job, [5])
            follow(follower, 1)
        return validate_result(pair, tasks)

    with pytest.raises(RequestError, match="another follower of the target has removed the round"):
        follow(replace(follower, move=overtake_comparison), 1)
    assert finished_round_checkpoints(follower.target) == [3, 5]
    assert_rounds_are_whole(follower.target)


def test_killed_comparisons_cause_no_new_base(job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round becomes the anchor once its comparison has ended, so a level must be left for a joined round above it."""
    rounds_below: dict[str, int] = {}

    def rounds_left(base: Base) -> int:
        continued = base.plan.continued
        rounds_below[base.result.target] = 0 if continued is None else rounds_below[continued.target] + 1
        return 5 - rounds_below[base.result.target]

    def be_killed_while_comparing(plan: Plan, proof: Proof) -> None:
        if plan.continued is not None and proof is Proof.RECORDS:
            raise KeyboardInterrupt
        certify(plan, proof)

    monkeypatch.setattr("rescale.following.round_plan.rounds_left", rounds_left)
    follower = follower_of(job, home)
    follow(follower, 0)
    for number in (4, 5, 6):
        checkpoints_follow(job, [number])
        with pytest.raises(KeyboardInterrupt):
            follow(replace(follower, move=be_killed_while_comparing), 1)
    for number in (7, 8):
        checkpoints_follow(job, [number])
        (new_round,) = follow(follower, 1)
        assert (new_round.root, new_round.compared) == (3, 7)

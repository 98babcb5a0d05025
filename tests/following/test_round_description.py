"""Descriptions of rounds by their plan, their certificate and the round before."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.following.round_description import describe_round
from rescale.plan.continuation import ContinuedResult
from rescale.plan.plan import Plan
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.runstate.certificate import Certificate, CertifiedChanges, CertifiedOperator
from rescale.runstate.certified_files import CertifiedFile
from rescale.runstate.follower.rounds import Round, RoundKind
from support.synthetic import operator, snapshot

TAKEN = 1_700_000_000
ROUND_BEFORE = Round(3, 7, RoundKind.ROUND, 5, None, 1, 2, 10, 20, 1.0, TAKEN - 20.0, 2.5, 4.5)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return a plan from a checkpoint that was taken at `TAKEN`, to a result whose `_metadata` has 100 bytes."""
    source, target = tmp_path / "source", tmp_path / "target"
    for folder, size in ((source, 9), (target, 100)):
        folder.mkdir()
        (folder / "_metadata").write_bytes(bytes(size))
    os.utime(source / "_metadata", (TAKEN, TAKEN))
    synthetic_snapshot = snapshot(operator("counts"), directory=str(source))
    return make_plan(synthetic_snapshot, make_request(str(source), str(target), ["3"]))


def continued_plan(plan: Plan, base: str) -> Plan:
    return replace(plan, checkpoint_id=8, continued=ContinuedResult(base, "a" * 64, "b" * 64, "/jobs/chk-7"))


def certificate(plan: Plan, *changes: CertifiedChanges | None) -> Certificate:
    """Return a certificate of 400 bytes in two files, with the changes of one operator each."""
    operators = tuple(CertifiedOperator("id", "counts", 3, 128, 128, 0, 0, 0, "", None, changes=c) for c in changes)
    files = (CertifiedFile("a", 300, None, 1), CertifiedFile("b", 100, None, 1))
    return Certificate(
        "complete", "", None, "", plan.source, "", plan.target, "", plan.digest, (), 0, operators, files, ""
    )


def test_first_round_is_a_base_of_its_own(plan: Plan) -> None:
    described = describe_round(plan, certificate(plan, None), None)
    assert (described.number, described.kind, described.root) == (0, RoundKind.BASE, plan.checkpoint_id)
    assert (described.rows_deleted, described.rows_written, described.change_rate) == (None, None, None)
    assert described.bytes_changed == 300 + 100 + 100, "with `_metadata`"
    assert described.bytes_read == sum(file.pin.size for file in plan.files)
    assert described.taken == TAKEN


def test_base_after_a_round_begins_anew(plan: Plan) -> None:
    described = describe_round(plan, certificate(plan), ROUND_BEFORE)
    assert (described.number, described.root, described.change_rate) == (4, plan.checkpoint_id, None)
    assert described.last_round_seconds == ROUND_BEFORE.last_round_seconds


def test_round_counts_the_rows_of_all_operators_and_the_bytes_by_second(plan: Plan) -> None:
    changes = (CertifiedChanges(4, 3, 1), None, CertifiedChanges(20, 10, 1))
    round_plan = continued_plan(plan, "/rounds/7")
    described = describe_round(round_plan, certificate(round_plan, *changes), ROUND_BEFORE)
    assert (described.kind, described.root, described.checkpoint) == (RoundKind.ROUND, ROUND_BEFORE.root, 8)
    assert (described.rows_deleted, described.rows_written) == (13, 24)
    assert described.change_rate == described.bytes_changed / 20
    assert described.bytes_read == 0, "no operator continues a directory"


def test_round_from_an_earlier_round_than_the_last_joins_those_between(plan: Plan) -> None:
    joined_plan = continued_plan(plan, "/rounds/5")
    assert describe_round(joined_plan, certificate(joined_plan), ROUND_BEFORE).kind is RoundKind.JOINED
    assert describe_round(joined_plan, certificate(joined_plan), None).kind is RoundKind.ROUND


@pytest.mark.parametrize("taken", [None, TAKEN + 0.0, TAKEN + 5.0])
def test_change_rate_needs_an_earlier_time_of_the_round_before(taken: float | None, plan: Plan) -> None:
    round_plan = continued_plan(plan, "/rounds/7")
    assert describe_round(round_plan, certificate(round_plan), replace(ROUND_BEFORE, taken=taken)).change_rate is None

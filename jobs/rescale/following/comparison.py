"""Compares every record of a round with its checkpoint, which shows that no changed key was missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certificate import certified_plan
from rescale.runstate.follower.rounds import (
    Round,
    RoundKind,
    finished_round_checkpoints,
    remove_rounds,
    round_target,
    write_round,
)
from rescale.text.errors import IntegrityError, RequestError


def compare_records(
    target: str, newest: Round, validate: Callable[[Plan, Proof], None], say: Callable[[str], None]
) -> Round:
    """Compare every record of the newest round with its checkpoint, and return the round with `compared` set.

    Returns the round unchanged if it is a base, or if a round since the base was compared before. `validate` compares
    the result of a plan with its source. If round and checkpoint differ, removes all rounds, so that none of them is
    continued, and raises `IntegrityError`. If another follower has removed the round meanwhile, removes nothing, and
    raises `RequestError`.
    """
    if newest.kind is RoundKind.BASE or newest.compared is not None:
        return newest
    say(f"comparing every record of round {newest.number} with its checkpoint, once after each base")
    try:
        validate(certified_plan(round_target(target, newest.checkpoint)), Proof.RECORDS)
    except IntegrityError as error:
        if newest.checkpoint not in finished_round_checkpoints(target):
            raise RequestError(
                "another follower of the target has removed the round that was compared",
                path=round_target(target, newest.checkpoint),
                advice="let only one process follow the job to this target",
            ) from None
        remove_rounds(target, kept_checkpoints=[])
        error.advice = (
            "the rounds were removed, so another try makes a new base; either the store has damaged a file of the "
            "checkpoint or of a round, or a change was missed: if you find no damage, report this as a bug"
        )
        raise
    compared_round = replace(newest, compared=newest.checkpoint)
    write_round(target, compared_round)
    return compared_round

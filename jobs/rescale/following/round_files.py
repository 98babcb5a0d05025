"""Files of rounds: which ones stay, and which ones are copied into the target while the job still runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rescale.following.round_plan import LIGHT_BYTES
from rescale.plan.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import Request
from rescale.runstate.certificate import certified_plan, read_certificate
from rescale.runstate.follower.rounds import Round, RoundKind, finished_round_checkpoints, remove_rounds, round_target
from rescale.runstate.preparation import prepare_with_links
from rescale.runstate.states import digest_of_claim
from rescale.storage.locations import parent
from rescale.text.errors import RequestError


def remove_unneeded_rounds(target: str, newest: Round | None) -> set[int]:
    """Remove all rounds but the newest, its anchor and its root; return the checkpoints of the newest and its anchor.

    The next round may continue one of these two, so files of other rounds stay if one of the two refers to them. If no
    round is finished, `newest` is None, and all rounds are removed.
    """
    if newest is None:
        remove_rounds(target, kept_checkpoints=())
        return set()
    continuable_numbers = {newest.checkpoint, newest.anchor}
    places = [
        round_target(target, number) for number in continuable_numbers.intersection(finished_round_checkpoints(target))
    ]
    files = [file for place in places for file in read_certificate(place).files]
    remove_rounds(
        target,
        kept_checkpoints={*continuable_numbers, newest.root},
        kept_uris={file.name for file in files if file.is_elsewhere},
    )
    return continuable_numbers


def copy_ahead(target: str, newest: Round, copied_roots: set[int], say: Callable[[str], None]) -> None:
    """Copy the SST files of the newest round into the target, so that the last round need not copy them.

    `copied_roots` are the roots of rounds whose files were copied before; the root of the newest round is added. Does
    nothing if only a few bytes can be missing, or if the target is claimed: the last round copies what is missing.
    """
    is_small = newest.kind is not RoundKind.BASE and newest.bytes_changed <= LIGHT_BYTES
    if (is_small and newest.root in copied_roots) or digest_of_claim(target) is not None:
        return
    try:
        prepare_with_links(plan_of_copies(round_target(target, newest.checkpoint), target), say)
    except RequestError:
        if digest_of_claim(target) is None:
            raise
    else:
        copied_roots.add(newest.root)


def plan_of_copies(place: str, target: str) -> Plan:
    """Return a plan that copies the SST files of the round at `place` into the target, for the last round to take over.

    The plan has only the operators whose directories a later round can continue; all other state is moved anew.
    """
    continuable_ids = {
        operator.operator_id for operator in certified_plan(place).operators if operator.rekeying is not None
    }
    plan = prepare(Request(place, target, {}, (parent(place),)), copies_ahead=True).plan
    return replace(plan, operators=tuple(o for o in plan.operators if o.operator_id in continuable_ids))

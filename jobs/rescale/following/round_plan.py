"""Plans a round: only the changes since an earlier round, if the new round can continue one, else a full run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.planning.continuing import continued_plan, rounds_left
from rescale.planning.prepare import PreparedPlan, prepare
from rescale.planning.request.request import Request
from rescale.rocksdb.options_file import refuse_unreadable_changes
from rescale.runstate.follower.rounds import RoundKind
from rescale.runstate.pinned_snapshots import open_base
from rescale.runstate.preparation import prepared_sizes
from rescale.snapshot.databases.live_tables import check_options_of
from rescale.snapshot.databases.unshared_tables import files_between
from rescale.snapshot.model import Snapshot
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, UnsupportedError

LIGHT_BYTES = 100_000_000
"""Number of bytes that are written in about a second. A light full run writes no more (`is_light`)."""

_NO_LEVEL_REASON = "no level of the databases is left for another round"


class RoundPlan(NamedTuple):
    """A plan, the kind of round that it makes, and the `reason` why it does not continue the newest round.

    `start_time` is when planning began, by `time.monotonic`.
    """

    prepared: PreparedPlan
    kind: RoundKind
    reason: str | None
    start_time: float

    @property
    def proof(self) -> Proof:
        """Proof for the round: by its changes if it continues a round, else by all records.

        A full run that writes little (`is_light`) compares RocksDB's files instead of their records.
        """
        if self.kind is not RoundKind.BASE:
            return Proof.CHANGES
        return Proof.FILES if self.is_light else Proof.RECORDS

    @property
    def is_light(self) -> bool:
        """Whether this is a full run that writes little, as the function `is_light` defines it."""
        return is_light(self.prepared.plan)


def can_have_rounds(plan: Plan) -> bool:
    """Return whether later rounds can continue this full run: only if records of an operator get new key groups."""
    return any(operator.rekeying is not None for operator in plan.operators)


def refuse_unreadable_rounds(prepared: PreparedPlan) -> None:
    """Raise `UnsupportedError` if rounds after this full run could not read the changes in an operator's files."""
    for operator, planned_operator in zip(prepared.snapshot.operators, prepared.plan.operators, strict=True):
        if planned_operator.rekeying is not None:
            check_options_of(prepared.snapshot, operator, refuse_unreadable_changes)


def is_light(plan: Plan) -> bool:
    """Return whether no record gets a new key group, and little is written besides files that were copied ahead."""
    ahead_bytes = sum(prepared_sizes(plan).values()) if plan.prepared else 0
    return not can_have_rounds(plan) and plan.bytes_moved - ahead_bytes <= LIGHT_BYTES


def plan_round(
    request: Request,
    base_uris: Sequence[str],
    checkpoints_between: Iterable[Sequence[Snapshot]],
    *,
    reserved_levels: int,
    reference_directory: str | None = None,
) -> RoundPlan:
    """Plan a round that continues the first of `base_uris` that can be continued, or a full run if none can.

    `base_uris` are the newest round, then its anchor. `checkpoints_between` are the checkpoints between that of the
    newest round and this one, in batches. `reserved_levels` is the number of the databases' levels that stay free for
    rounds after this one. If the round continues one of `base_uris`, its result refers to those SST files of the base
    that lie in `reference_directory`, and has copies of the others.
    """
    start_time = time.monotonic()
    full_plan = prepare(request)
    reasons = []
    files = files_between(checkpoints_between, full_plan.snapshot)
    for kind, base_uri in zip((RoundKind.ROUND, RoundKind.JOINED), base_uris, strict=False):
        try:
            base = open_base(base_uri, request.allow_prefixes)
            if rounds_left(base) <= reserved_levels:
                reasons.append(_NO_LEVEL_REASON)
                continue
            plan = continued_plan(full_plan.plan, full_plan.snapshot, base, files, reference_directory)
        except (RequestError, UnsupportedError, SnapshotError, IntegrityError) as error:
            operator_text = f" (operator {error.operator!r})" if error.operator else ""
            found_text = f": {error.found}" if error.found else ""
            reasons.append(f"{error.what}{operator_text}{found_text}")
            continue
        return RoundPlan(full_plan._replace(plan=plan), kind, next(iter(reasons), None), start_time)
    return RoundPlan(full_plan, RoundKind.BASE, next(iter(reasons), None), start_time)

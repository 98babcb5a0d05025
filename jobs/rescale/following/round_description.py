"""The description of a finished round: what has changed since the round before, and what the round cost."""

from __future__ import annotations

from rescale.plan.plan import Plan
from rescale.runstate.certificate import Certificate, certified_plan, read_certificate
from rescale.runstate.follower.rounds import (
    Round,
    RoundKind,
    finished_rounds,
    newest_round,
    read_round,
    round_target,
    write_round,
)
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.locations import join, name
from rescale.storage.store import open_store


def describe_round(plan: Plan, certificate: Certificate, before: Round | None) -> Round:
    """Describe a round by its plan and certificate; `before` is the previous round.

    `seconds` is None: only the process that made the round knows it.
    """
    kind = _kind(plan, before)
    changes = [operator.changes for operator in certificate.operators if operator.changes is not None]
    metadata = open_store(plan.target).stat(join(plan.target, METADATA))
    total_bytes = sum(file.size for file in certificate.files) + (metadata.size if metadata else 0)
    written_bytes = max(0, total_bytes - plan.base_bytes)
    taken = _checkpoint_time(plan)
    rate = None
    if before is not None and taken is not None and before.taken is not None and taken > before.taken:
        rate = written_bytes / (taken - before.taken)
    return Round(
        number=0 if before is None else before.number + 1,
        checkpoint=plan.checkpoint_id,
        kind=kind,
        root=plan.checkpoint_id if kind is RoundKind.BASE or before is None else before.root,
        reason=None,
        rows_deleted=sum(change.deleted for change in changes) if changes else None,
        rows_written=sum(change.written for change in changes) if changes else None,
        bytes_changed=written_bytes,
        bytes_read=sum(file.pin.size for file in plan.files) if kind is RoundKind.BASE else plan.bytes_compared,
        change_rate=rate if kind is not RoundKind.BASE else None,
        taken=taken,
        seconds=None,
        last_round_seconds=None if before is None else before.last_round_seconds,
        compared=None if kind is RoundKind.BASE or before is None else before.compared,
    )


def complete_newest_round(target: str) -> Round | None:
    """Return a target's newest round, or None if there is none.

    Writes its document first, if the process that made the round was killed before that.
    """
    for number in finished_rounds(target)[-1:]:
        if (described_round := read_round(target, number)) is not None:
            return described_round
        place = round_target(target, number)
        plan = certified_plan(place)
        before = newest_round(target, plan.checkpoint_id)
        completed_round = describe_round(plan, read_certificate(place), before)
        write_round(target, completed_round)
        return completed_round
    return None


def _kind(plan: Plan, before: Round | None) -> RoundKind:
    if plan.continued is None:
        return RoundKind.BASE
    continues_newest = before is None or name(plan.continued.target) == str(before.checkpoint)
    return RoundKind.ROUND if continues_newest else RoundKind.JOINED


def _checkpoint_time(plan: Plan) -> float | None:
    """Return the time of the checkpoint's `_metadata`, in seconds since 1970."""
    uri = join(plan.source, METADATA)
    write_time = open_store(uri).modified(uri)
    return None if write_time is None else write_time.timestamp()

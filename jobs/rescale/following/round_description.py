"""The description of a finished round: what has changed since the round before, and what the round cost."""

from __future__ import annotations

from rescale.plan.plan import Plan
from rescale.runstate.certificate import Certificate, certified_plan, read_certificate
from rescale.runstate.follower.rounds import (
    Round,
    RoundKind,
    finished_round_checkpoints,
    newest_round,
    read_round,
    round_target,
    write_round,
)
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.locations import join, name
from rescale.storage.store import open_store


def describe_round(plan: Plan, certificate: Certificate, previous_round: Round | None) -> Round:
    """Return the description of a round, from its plan and certificate; `previous_round` is None for the first one.

    `seconds` is None: only the process that made the round knows it.
    """
    kind = _kind(plan, previous_round)
    changes = [operator.changes for operator in certificate.operators if operator.changes is not None]
    metadata_pin = open_store(plan.target).stat(join(plan.target, METADATA))
    total_bytes = sum(file.size for file in certificate.files) + (metadata_pin.size if metadata_pin else 0)
    written_bytes = max(0, total_bytes - plan.base_bytes)
    checkpoint_time = _checkpoint_time(plan)
    change_rate = None
    if (
        previous_round is not None
        and checkpoint_time is not None
        and previous_round.taken is not None
        and checkpoint_time > previous_round.taken
    ):
        change_rate = written_bytes / (checkpoint_time - previous_round.taken)
    return Round(
        number=0 if previous_round is None else previous_round.number + 1,
        checkpoint=plan.checkpoint_id,
        kind=kind,
        root=plan.checkpoint_id if kind is RoundKind.BASE or previous_round is None else previous_round.root,
        reason=None,
        rows_deleted=sum(change.deleted for change in changes) if changes else None,
        rows_written=sum(change.written for change in changes) if changes else None,
        bytes_changed=written_bytes,
        bytes_read=sum(file.pin.size for file in plan.files) if kind is RoundKind.BASE else plan.bytes_compared,
        change_rate=change_rate if kind is not RoundKind.BASE else None,
        taken=checkpoint_time,
        seconds=None,
        last_round_seconds=None if previous_round is None else previous_round.last_round_seconds,
        compared=None if kind is RoundKind.BASE or previous_round is None else previous_round.compared,
    )


def complete_newest_round(target: str) -> Round | None:
    """Return a target's newest round, or None if there is none.

    If the process that made the round was killed before it wrote the document of the round, writes the document first.
    """
    for number in finished_round_checkpoints(target)[-1:]:
        if (described_round := read_round(target, number)) is not None:
            return described_round
        place = round_target(target, number)
        plan = certified_plan(place)
        previous_round = newest_round(target, plan.checkpoint_id)
        completed_round = describe_round(plan, read_certificate(place), previous_round)
        write_round(target, completed_round)
        return completed_round
    return None


def _kind(plan: Plan, previous_round: Round | None) -> RoundKind:
    if plan.continued is None:
        return RoundKind.BASE
    continues_newest = previous_round is None or name(plan.continued.target) == str(previous_round.checkpoint)
    return RoundKind.ROUND if continues_newest else RoundKind.JOINED


def _checkpoint_time(plan: Plan) -> float | None:
    """Return the time of the checkpoint's `_metadata`, in seconds since 1970."""
    uri = join(plan.source, METADATA)
    write_time = open_store(uri).modification_time(uri)
    return None if write_time is None else write_time.timestamp()

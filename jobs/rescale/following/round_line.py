"""A round as a line for people, and as a line of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescale.runstate.follower.rounds import Round, RoundKind
from rescale.text.units import counted, duration, human_bytes


@dataclass(frozen=True)
class RoundLine(Round):
    """A finished round, and what the follower waits for: a line of the output of `follow`."""

    waits_for: str = field(kw_only=True)


def round_document(finished_round: Round, waits_for: str) -> RoundLine:
    return RoundLine(**vars(finished_round), waits_for=waits_for)


def round_line(finished_round: Round, waits_for: str | None) -> str:
    """Return a sentence on a round: what it moved, how long it took, and how long a last round would take.

    `waits_for` is what the next round, or the cut-over, waits for; None if the cut-over begins.
    """
    clauses = [f"{_title(finished_round)}: checkpoint {finished_round.checkpoint}", *_reason_clauses(finished_round)]
    if finished_round.rows_written is not None and finished_round.rows_deleted is not None:
        clauses.append(
            f"{counted(finished_round.rows_written, 'row')} written and {finished_round.rows_deleted:,} deleted"
        )
    clauses.append(
        f"{human_bytes(finished_round.bytes_changed)} written, {human_bytes(finished_round.bytes_read)} of files read"
    )
    if finished_round.change_rate is not None:
        clauses.append(f"the job changes {human_bytes(finished_round.change_rate)}/s")
    if finished_round.seconds is not None:
        clauses.append(f"took {duration(finished_round.seconds)}")
    if finished_round.compared is not None:
        clauses.append(f"every record was compared at checkpoint {finished_round.compared}")
    clauses.append(last_round_phrase(finished_round))
    return "; ".join([", ".join(clauses), *([] if waits_for is None else [f"waits for {waits_for}"])])


def last_round_phrase(finished_round: Round) -> str:
    """Return a clause on the duration of a last round that would follow this one."""
    seconds = finished_round.last_round_seconds
    if seconds is None:
        return "the time of a last round is not known yet"
    return f"a last round would take about {duration(seconds)}"


def _title(finished_round: Round) -> str:
    if finished_round.kind is RoundKind.BASE:
        return f"round {finished_round.number}, a new base" if finished_round.number else "base"
    return f"round {finished_round.number}"


def _reason_clauses(finished_round: Round) -> list[str]:
    """Return clauses on what a joined round moved, and why; or, if the reason is known, why a full run was needed."""
    reason = [] if finished_round.reason is None else [f"because {finished_round.reason}"]
    if finished_round.kind is RoundKind.JOINED:
        was_compared_before = finished_round.compared not in (None, finished_round.checkpoint)
        earlier_checkpoint = finished_round.compared if was_compared_before else finished_round.root
        return [f"all changes since checkpoint {earlier_checkpoint}", *reason]
    return ["a full run", *reason] if reason else []

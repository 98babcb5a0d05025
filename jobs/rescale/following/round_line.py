"""A round as a line for people, and as a line of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescale.runstate.follower.rounds import Round, RoundKind
from rescale.text.units import counted, duration, human_bytes


@dataclass(frozen=True)
class RoundLine(Round):
    """A finished round, and what the follower waits for: a line of the output of `follow`."""

    waits_for: str = field(kw_only=True)


def round_document(finished: Round, waits_for: str) -> RoundLine:
    """Return a round as a document."""
    return RoundLine(**vars(finished), waits_for=waits_for)


def round_line(finished: Round, waits_for: str | None) -> str:
    """Return a sentence on a round: what it moved, how long it took, and how long a last round would take.

    `waits_for` is what the next round, or the cut-over, waits for; None if the cut-over begins.
    """
    parts = [f"{_title(finished)}: checkpoint {finished.checkpoint}", *_reason(finished)]
    if finished.rows_written is not None and finished.rows_deleted is not None:
        parts.append(f"{counted(finished.rows_written, 'row')} written and {finished.rows_deleted:,} deleted")
    parts.append(f"{human_bytes(finished.bytes_changed)} written, {human_bytes(finished.bytes_read)} of files read")
    if finished.change_rate is not None:
        parts.append(f"the job changes {human_bytes(finished.change_rate)}/s")
    if finished.seconds is not None:
        parts.append(f"took {duration(finished.seconds)}")
    if finished.compared is not None:
        parts.append(f"every record was compared at checkpoint {finished.compared}")
    parts.append(last_round_phrase(finished))
    return "; ".join([", ".join(parts), *([] if waits_for is None else [f"waits for {waits_for}"])])


def last_round_phrase(finished: Round) -> str:
    """Return a clause on the duration of a last round that would follow this one."""
    seconds = finished.last_round_seconds
    if seconds is None:
        return "the time of a last round is not known yet"
    return f"a last round would take about {duration(seconds)}"


def _title(finished: Round) -> str:
    if finished.kind is RoundKind.BASE:
        return f"round {finished.number}, a new base" if finished.number else "base"
    return f"round {finished.number}"


def _reason(finished: Round) -> list[str]:
    if finished.kind is RoundKind.JOINED:
        return [f"all changes since checkpoint {finished.anchor}, because {finished.reason}"]
    return [f"a full run, because {finished.reason}"] if finished.reason else []

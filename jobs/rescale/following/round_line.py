"""A round as a line for people, and as a line of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescale.runstate.follower.rounds import Round, RoundKind
from rescale.text.units import counted, duration, human_bytes


@dataclass(frozen=True)
class RoundLine(Round):
    """A finished round, and what the follower waits for: a line of the answer of `follow`."""

    waits_for: str = field(kw_only=True)


def round_document(made: Round, waits_for: str) -> RoundLine:
    """Return a round as a document."""
    return RoundLine(**vars(made), waits_for=waits_for)


def round_line(made: Round, waits_for: str | None) -> str:
    """Return a sentence on a round: what it moved, how long it took, and how long a last round would take.

    `waits_for` is what the next round, or the cut-over, waits for; None if that begins.
    """
    parts = [f"{_named(made)}: checkpoint {made.checkpoint}", *_because(made)]
    if made.rows_came is not None and made.rows_left is not None:
        parts.append(f"{counted(made.rows_came, 'row')} added and {made.rows_left:,} removed")
    parts.append(f"{human_bytes(made.bytes_changed)} written, {human_bytes(made.bytes_read)} of files read")
    if made.change_rate is not None:
        parts.append(f"the job changes {human_bytes(made.change_rate)}/s")
    if made.seconds is not None:
        parts.append(f"took {duration(made.seconds)}")
    if made.compared is not None:
        parts.append(f"every record was compared at checkpoint {made.compared}")
    last = made.last_round_seconds
    parts.append(f"a last round would take {'a time not known yet' if last is None else f'about {duration(last)}'}")
    return "; ".join([", ".join(parts), *([] if waits_for is None else [f"waits for {waits_for}"])])


def _named(made: Round) -> str:
    if made.kind is RoundKind.BASE:
        return f"round {made.number}, a new base" if made.number else "base"
    return f"round {made.number}"


def _because(made: Round) -> list[str]:
    if made.kind is RoundKind.JOINED:
        return [f"all changes since the base, checkpoint {made.root}, because {made.reason}"]
    return [f"a full run, because {made.reason}"] if made.reason else []

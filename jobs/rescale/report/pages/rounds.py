"""Table of a follower's rounds: rows that changed, bytes read and written, and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rescale.report.page import Block, Section, paragraph, table
from rescale.runstate.follower.rounds import Round, RoundKind
from rescale.text.units import counted, human_bytes

_HEADERS = ("round", "checkpoint", "rows written", "rows deleted", "written", "read", "change", "expected", "took")
_KIND_NOTES = {RoundKind.BASE: " (base)", RoundKind.JOINED: " (joined)", RoundKind.ROUND: ""}
_MOST_SHOWN = 20

TITLE = "Rounds"


def rounds_section(rounds: Sequence[Round]) -> list[Section]:
    """Return the section with the last rounds of a follower; no section without rounds."""
    return [Section(TITLE, tuple(rounds_blocks(rounds)))] if rounds else []


def rounds_blocks(rounds: Sequence[Round]) -> list[Block]:
    """Return a table of the last rounds, in order; no table without rounds."""
    if not rounds:
        return []
    expected_seconds: list[float | None] = [
        None,
        *(earlier_round.last_round_seconds for earlier_round, _ in pairwise(rounds)),
    ]
    rows = [_row(*row) for row in zip(rounds, expected_seconds, strict=True)][-_MOST_SHOWN:]
    summary = f"{counted(rounds[-1].number, 'round')} after the base, each from a new checkpoint of the running job."
    if (compared := rounds[-1].compared) is not None:
        summary += (
            f" Every record was compared at checkpoint {compared}; since then, rounds were proven by their changes."
        )
    return [paragraph(summary), table(_HEADERS, rows)]


def _row(follower_round: Round, expected_seconds: float | None) -> tuple[str, ...]:
    return (
        f"{follower_round.number}{_KIND_NOTES[follower_round.kind]}",
        str(follower_round.checkpoint),
        _number_or_dash(follower_round.rows_written, "{:,}"),
        _number_or_dash(follower_round.rows_deleted, "{:,}"),
        human_bytes(follower_round.bytes_changed),
        human_bytes(follower_round.bytes_read),
        "-" if follower_round.change_rate is None else f"{human_bytes(follower_round.change_rate)}/s",
        "-" if follower_round.kind is RoundKind.BASE else _number_or_dash(expected_seconds, "{:.1f} s"),
        _number_or_dash(follower_round.seconds, "{:.1f} s"),
    )


def _number_or_dash(number: float | None, format_spec: str) -> str:
    return "-" if number is None else format_spec.format(number)

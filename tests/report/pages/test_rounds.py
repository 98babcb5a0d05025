"""The table of a follower's rounds: what each moved, the expected time, and what it took."""

from __future__ import annotations

from rescale.report.page import Page
from rescale.report.pages.rounds import rounds_blocks, rounds_section
from rescale.report.renderers.text import render_text
from rescale.runstate.follower.rounds import Round, RoundKind

BASE_ROUND = Round(0, 3, RoundKind.BASE, 3, None, None, None, 1_000_000, 2_000_000, None, 0.0, 20.0, None)
FIRST_ROUND = Round(1, 4, RoundKind.ROUND, 3, None, 1100, 1200, 5_000, 40_000, 2_500.0, 2.0, 3.0, 3.0)
JOINED_ROUND = Round(2, 6, RoundKind.JOINED, 3, "no level", 2, 1, 10, 20, 5.0, 4.0, 4.5, 3.0)


def test_each_round_has_a_row() -> None:
    lines = render_text(Page(tuple(rounds_blocks([BASE_ROUND, FIRST_ROUND, JOINED_ROUND])))).splitlines()
    rows = [line.split() for line in lines if line[:1].isdigit() and "after" not in line]
    assert rows[0][:3] == ["0", "(base)", "3"]
    assert rows[1][:4] == ["1", "4", "1,200", "1,100"]
    assert rows[1][-3:] == ["-", "3.0", "s"], "no time was expected after the base"
    assert rows[2][:3] == ["2", "(joined)", "6"]
    assert rows[2][-4:] == ["3.0", "s", "4.5", "s"]


def test_the_last_of_many_rounds_are_shown() -> None:
    many_rounds = [
        Round(**{**vars(FIRST_ROUND), "number": number, "checkpoint": 100 + number}) for number in range(1, 60)
    ]
    text = render_text(Page(tuple(rounds_blocks(many_rounds))))
    assert "59 rounds after the base" in text
    assert "159" in text
    assert "101" not in text


def test_follower_without_rounds_has_no_table() -> None:
    assert rounds_section([]) == []
    assert rounds_blocks([]) == []

"""The line of a round: what the round moved, the reason for its kind, and what the follower waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.following.round_line import round_line
from rescale.runstate.follower.rounds import Round, RoundKind

BASE = Round(0, 3, RoundKind.BASE, 3, None, None, None, 10**6, 2 * 10**6, None, None, 4.0, None)
ROUND = replace(
    BASE,
    number=2,
    checkpoint=7,
    kind=RoundKind.ROUND,
    rows_deleted=300,
    rows_written=1200,
    change_rate=10_000.0,
    last_round_seconds=4.0,
    compared=5,
)


@pytest.mark.parametrize(
    ("finished", "waits_for", "line"),
    [
        (
            BASE,
            "a checkpoint after 3",
            "base: checkpoint 3, 1 MB written, 2 MB of files read, took 4 seconds, "
            "the time of a last round is not known yet; waits for a checkpoint after 3",
        ),
        (
            ROUND,
            None,
            "round 2: checkpoint 7, 1,200 rows written and 300 deleted, 1 MB written, 2 MB of files read, "
            "the job changes 10 kB/s, took 4 seconds, every record was compared at checkpoint 5, "
            "a last round would take about 4 seconds",
        ),
        (
            replace(BASE, number=4, kind=RoundKind.JOINED, checkpoint=9, seconds=None, compared=9),
            None,
            "round 4: checkpoint 9, all changes since checkpoint 3, 1 MB written, 2 MB of files read, "
            "every record was compared at checkpoint 9, the time of a last round is not known yet",
        ),
        (
            replace(BASE, number=4, kind=RoundKind.JOINED, checkpoint=9, reason="no level is left", compared=5),
            None,
            "round 4: checkpoint 9, all changes since checkpoint 5, because no level is left, 1 MB written, "
            "2 MB of files read, took 4 seconds, every record was compared at checkpoint 5, "
            "the time of a last round is not known yet",
        ),
    ],
)
def test_line_of_a_round_says_what_the_round_moved(finished: Round, waits_for: str | None, line: str) -> None:
    assert round_line(finished, waits_for) == line

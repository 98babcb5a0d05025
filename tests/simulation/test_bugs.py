"""Test of the simulation itself: planted bugs, one at a time, are found."""

from __future__ import annotations

import pytest

from simulation.bugs.planting import Bug
from simulation.bugs.table import FOUND_BY_HISTORIES, hunt
from simulation.installed import installed
from support.slow import slow

MOST_SEEDS = 250
"""Number of seeds that are tried after the known seed of a bug."""

_QUICK_INTERVAL = 20


@pytest.mark.parametrize(
    "bug",
    [
        slow(bug, id=bug.name) if i % _QUICK_INTERVAL else pytest.param(bug, id=bug.name)
        for i, bug in enumerate(FOUND_BY_HISTORIES)
    ],
)
def test_planted_bug_is_found(bug: Bug) -> None:
    with installed():
        assert hunt(bug, range(MOST_SEEDS)) is not None


def test_names_of_bugs_are_unique() -> None:
    assert len({bug.name for bug in FOUND_BY_HISTORIES}) == len(FOUND_BY_HISTORIES)

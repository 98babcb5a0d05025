"""Levels of detail of a report, which keep its page small enough for a mail, however large the snapshot is."""

from __future__ import annotations

from typing import NamedTuple


class DetailLevel(NamedTuple):
    """Limits of a page.

    `drawn_operators` get all figures, and `strips` further operators only the map of their key groups. `parts` and
    `ribbons` limit their numbers in a figure, `rows` the rows of a table, and `list_items` the items of a list in the
    embedded JSON.
    """

    drawn_operators: int
    strips: int
    parts: int
    ribbons: int
    rows: int
    list_items: int


DETAIL_LEVELS = (
    DetailLevel(drawn_operators=12, strips=60, parts=64, ribbons=200, rows=24, list_items=64),
    DetailLevel(drawn_operators=5, strips=60, parts=64, ribbons=200, rows=16, list_items=32),
    DetailLevel(drawn_operators=2, strips=60, parts=32, ribbons=130, rows=12, list_items=16),
    DetailLevel(drawn_operators=1, strips=49, parts=16, ribbons=130, rows=8, list_items=8),
    DetailLevel(drawn_operators=1, strips=19, parts=16, ribbons=40, rows=8, list_items=8),
)
"""Levels from the most detail to the least."""

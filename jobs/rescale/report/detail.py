"""Levels of detail of a report, which keep its page small enough for a mail, however large the snapshot is."""

from __future__ import annotations

from typing import NamedTuple


class DetailLevel(NamedTuple):
    """Limits of a page.

    `most_drawn_operators` get all figures, and `most_strips` further operators only the map of their key groups.
    `most_parts` and `most_ribbons` limit the parts and the ribbons of a map of key groups, `most_rows` the rows of a
    table, and `most_list_items` the items of a list in the embedded JSON.
    """

    most_drawn_operators: int
    most_strips: int
    most_parts: int
    most_ribbons: int
    most_rows: int
    most_list_items: int


DETAIL_LEVELS = (
    DetailLevel(
        most_drawn_operators=12, most_strips=60, most_parts=64, most_ribbons=200, most_rows=24, most_list_items=64
    ),
    DetailLevel(
        most_drawn_operators=5, most_strips=60, most_parts=64, most_ribbons=200, most_rows=16, most_list_items=32
    ),
    DetailLevel(
        most_drawn_operators=2, most_strips=60, most_parts=32, most_ribbons=130, most_rows=12, most_list_items=16
    ),
    DetailLevel(
        most_drawn_operators=1, most_strips=49, most_parts=16, most_ribbons=130, most_rows=8, most_list_items=8
    ),
    DetailLevel(most_drawn_operators=1, most_strips=19, most_parts=16, most_ribbons=40, most_rows=8, most_list_items=8),
)
"""Levels from the most detail to the least."""

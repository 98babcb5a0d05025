"""How much of a snapshot a report draws: a page stays small enough to be mailed, however large the snapshot is."""

from __future__ import annotations

from typing import NamedTuple


class Detail(NamedTuple):
    """So many operators with all figures, and so many more with their key groups; so much of each figure and table.

    `listed` is how long a list of the embedded JSON may be.
    """

    drawn: int
    strips: int
    parts: int
    ribbons: int
    rows: int
    listed: int


DETAILS = (
    Detail(drawn=12, strips=60, parts=64, ribbons=200, rows=24, listed=64),
    Detail(drawn=5, strips=60, parts=64, ribbons=200, rows=16, listed=32),
    Detail(drawn=2, strips=60, parts=32, ribbons=130, rows=12, listed=16),
    Detail(drawn=1, strips=49, parts=16, ribbons=130, rows=8, listed=8),
    Detail(drawn=1, strips=19, parts=16, ribbons=40, rows=8, listed=8),
)
"""From the most to the least."""

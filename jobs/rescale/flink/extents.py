"""Ends of entries that have offsets and no lengths: each entry ends at the next larger offset."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise


def ends(offsets: Iterable[int], size: int) -> dict[int, int]:
    """Return the end of the entry at each offset, by offset, in a stream of `size` bytes."""
    ordered = sorted(set(offsets))
    return dict(pairwise([*ordered, size]))

"""Ends of entries that are stored with offsets, but without lengths: an entry ends at the next larger offset."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise


def ends_by_offset(offsets: Iterable[int], size: int) -> dict[int, int]:
    """Return the end of each entry, by the offset at which it starts.

    The last entry ends at `size`, the size of the stream in bytes.
    """
    sorted_offsets = sorted(set(offsets))
    return dict(pairwise([*sorted_offsets, size]))

"""Offsets without lengths: what begins at one ends where the next larger one is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise


def ends(offsets: Iterable[int], size: int) -> dict[int, int]:
    """By offset, where what begins there ends, in a stream of `size` bytes."""
    ordered = sorted(set(offsets))
    return dict(pairwise([*ordered, size]))

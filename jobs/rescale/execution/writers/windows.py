"""Blocks a bounded number of bytes at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.execution.writers.protocol import Blocks

WINDOW = 8 * 1024 * 1024
"""Bytes of blocks that are loaded at once, if nothing else is said."""


def windows(blocks: Blocks, size: int | None = None) -> Iterator[tuple[int, int]]:
    """(first, behind the last) of the blocks that are loaded at once; one that is larger is a window of its own."""
    most = WINDOW if size is None else size
    behind = np.cumsum(blocks.sizes)
    first = 0
    while first < len(blocks):
        before = int(behind[first]) - int(blocks.sizes[first])
        last = max(first + 1, int(np.searchsorted(behind, before + most, side="right")))
        yield first, last
        first = last

"""Which streams lie in `_metadata` itself."""

from __future__ import annotations

INLINE_LIMIT = 20 * 1024
"""Largest stream in bytes that may lie in `_metadata` itself (Flink's default `data-inline-threshold`)."""

INLINE_BUDGET = 4 * 1024 * 1024
"""All inline streams together stay below this, so that `_metadata` stays a small file at any parallelism."""


class InlineBudget:
    """Says which streams lie inline: small ones, first come first served, until the budget is spent.

    `spent` are the bytes of those that were taken elsewhere.
    """

    def __init__(self, spent: int = 0) -> None:
        self._left = INLINE_BUDGET - spent

    def takes(self, size: int) -> bool:
        if size > min(INLINE_LIMIT, self._left):
            return False
        self._left -= size
        return True

"""Chooses the streams that are stored in `_metadata` itself instead of a file."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.plan.operator_plan import OperatorPlan

INLINE_LIMIT = 20 * 1024
"""Largest size in bytes of a stream that is stored in `_metadata` (Flink's default `data-inline-threshold`)."""

INLINE_BUDGET = 4 * 1024 * 1024
"""Largest size in bytes of all inline streams together, so that `_metadata` stays small at any parallelism."""


class InlineBudget:
    """Chooses the streams that are stored inline: small ones, in the order of the calls, until the budget is spent.

    The inline streams of the `operators` count as spent.
    """

    def __init__(self, operators: Iterable[OperatorPlan] = ()) -> None:
        inline_sizes = (stream.size for operator in operators for stream in operator.streams if stream.inline)
        self._left = INLINE_BUDGET - sum(inline_sizes)

    def try_take(self, size: int) -> bool:
        """Return whether a stream of `size` bytes is stored inline; if so, deduct its bytes from the budget."""
        if size > min(INLINE_LIMIT, self._left):
            return False
        self._left -= size
        return True

"""Sizes of the parts of a file."""

from __future__ import annotations

from rescale.plan.plan import Plan
from rescale.storage.contract import PartLimits
from rescale.storage.store import open_store


def part_limits(plan: Plan) -> PartLimits:
    """Return the limits that the target's store sets for parts."""
    return open_store(plan.target).part_limits


def part_size(plan: Plan, size: int) -> int:
    """Return the part size for a file of about `size` bytes: as planned, or larger if the store limits their number.

    Uses at most half of the allowed number, since a range may end with a smaller part, and `size` may be an estimate.
    """
    return max(plan.part_size, -(-size // (part_limits(plan).most // 2)))


def number_of_parts(size: int, size_of_parts: int) -> int:
    """Return the number of parts of `size_of_parts` bytes; the last may be twice as large, so that none is small."""
    return max(1, size // size_of_parts) if size else 0

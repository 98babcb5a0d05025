"""How large the parts of a file are: the one place where that is decided."""

from __future__ import annotations

from rescale.planning.values.plan import Plan
from rescale.storage.contract import PartLimits
from rescale.storage.store import open_store


def part_limits(plan: Plan) -> PartLimits:
    """What the store of the target wants of parts."""
    return open_store(plan.target).part_limits


def part_size(plan: Plan, size: int) -> int:
    """Bytes of a part of a file of about `size` bytes: as planned, or more if the store takes no more parts.

    Half as many as may be: a range of the file may end in one that is half as large, and `size` may be an estimate.
    """
    return max(plan.part_size, -(-size // (part_limits(plan).most // 2)))


def number_of_parts(size: int, size_of_parts: int) -> int:
    """Parts of `size_of_parts` bytes, the last one of up to twice as many, so that none is small."""
    return max(1, size // size_of_parts) if size else 0

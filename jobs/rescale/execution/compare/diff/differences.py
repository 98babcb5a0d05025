"""Texts for the differences of two snapshots, and functions that make parts of the document (`report.differences`)."""

from __future__ import annotations

from enum import IntEnum

from rescale.report.differences import DiffedState, ListedDifference, StateAmount
from rescale.snapshot.snapshot_files import SnapshotFiles

MOST_SHOWN = 10
"""Largest number of differences that are listed for a state."""


class Side(IntEnum):
    A = 0
    B = 1


BothFiles = tuple[SnapshotFiles, SnapshotFiles]
"""Readers of the files of snapshot A and of snapshot B."""

ONLY_IN = ("only in A", "only in B")
OTHER_VALUE, OTHER_NUMBER, OTHER_TYPE = "other value", "other number", "other type"


def amount(count: int = 0, digest: int = 0) -> StateAmount:
    """Return the amount of a state in one snapshot: the number of its items, and the sum of their digests mod 2^128."""
    return StateAmount(count, f"{digest:032x}")


def diffed_state(
    state: str,
    kind: str,
    counted_things: str,
    a: StateAmount,
    b: StateAmount,
    differences: tuple[ListedDifference, ...] = (),
    difference_count: int = 0,
    remark: str | None = None,
) -> DiffedState:
    """Return the comparison of a state. `counted_things` names what is counted, such as "records".

    There are at least `difference_count` differences, of which `differences` lists the first few.
    """
    is_equal = a == b and not differences
    least_difference_count = max(difference_count, int(not is_equal))
    return DiffedState(state, kind, is_equal, counted_things, a, b, least_difference_count, differences, remark)

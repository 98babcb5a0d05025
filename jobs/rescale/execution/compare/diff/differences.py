"""Terms of a comparison of two snapshots, and the parts of its document (`report.differences`)."""

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
"""Readers of the two snapshots' files, by side."""

ONLY_IN = ("only in A", "only in B")
OTHER_VALUE, OTHER_NUMBER, OTHER_TYPE = "other value", "other number", "other type"


def amount(count: int = 0, digest: int = 0) -> StateAmount:
    """Return the size of a state in one snapshot; `digest` is a number of 128 bits."""
    return StateAmount(count, f"{digest:032x}")


def diffed_state(
    state: str,
    kind: str,
    counted: str,
    a: StateAmount,
    b: StateAmount,
    differences: tuple[ListedDifference, ...] = (),
    differing: int = 0,
    remark: str | None = None,
) -> DiffedState:
    """Return the comparison of a state with at least `differing` differences, of which the first few are listed."""
    equal = a == b and not differences
    at_least = max(differing, int(not equal))
    return DiffedState(state, kind, equal, counted, a, b, at_least, differences, remark)

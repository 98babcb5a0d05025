"""Result of a comparison of two snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from rescale.report.differences import (
    DiffDocument,
    DiffedOperator,
    DiffedState,
    ListedDifference,
    ListedShape,
    StateAmount,
)
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.snapshot.surgery import NO_SURGERY, Surgery

MOST_SHOWN = 10
"""Largest number of differences that are listed for a state."""


class Side(IntEnum):
    A = 0
    B = 1


BothFiles = tuple[SnapshotFiles, SnapshotFiles]
"""Readers of the two snapshots' files, by side."""


@dataclass(frozen=True)
class Amount:
    """Size of a state in one snapshot, in the unit that `StateDiff.counted` names, and a digest of its content."""

    count: int = 0
    digest: int = 0


ONLY_IN = ("only in A", "only in B")
OTHER_VALUE, OTHER_NUMBER, OTHER_TYPE = "other value", "other number", "other type"


@dataclass(frozen=True)
class StateDiff:
    """Comparison of one state of an operator: at least `differing` differences, of which the first few are listed.

    `remark` explains the differences where they have a known common cause.
    """

    state: str
    type: str
    counted: str
    a: Amount
    b: Amount
    differences: tuple[ListedDifference, ...] = ()
    differing: int = 0
    remark: str | None = None

    @property
    def equal(self) -> bool:
        return self.a == self.b and not self.differences


@dataclass(frozen=True)
class OperatorDiff:
    """Comparison of one operator; `differences` are those outside its states.

    A shape is None if that snapshot does not list the operator.
    """

    operator_id: str
    label: str
    shapes: tuple[ListedShape | None, ListedShape | None]
    states: tuple[StateDiff, ...]
    differences: tuple[ListedDifference, ...]

    @property
    def equal(self) -> bool:
        return not self.differences and all(state.equal for state in self.states)


@dataclass(frozen=True)
class SnapshotDiff:
    """Comparison of two snapshots by operator; `a` and `b` are their directories. The `surgery` was applied to `a`."""

    a: str
    b: str
    operators: tuple[OperatorDiff, ...]
    surgery: Surgery = NO_SURGERY

    @property
    def equal(self) -> bool:
        return all(operator.equal for operator in self.operators)

    def document(self) -> DiffDocument:
        verdict: Literal["equal", "different"] = "equal" if self.equal else "different"
        return DiffDocument(verdict, self.equal, self.a, self.b, tuple(map(_operator, self.operators)), self.surgery)


def _operator(operator: OperatorDiff) -> DiffedOperator:
    a, b = operator.shapes
    return DiffedOperator(
        operator.operator_id,
        operator.label,
        operator.equal,
        a,
        b,
        operator.differences,
        tuple(map(_state, operator.states)),
    )


def _state(state: StateDiff) -> DiffedState:
    return DiffedState(
        state.state,
        state.type,
        state.equal,
        state.counted,
        _amount(state.a),
        _amount(state.b),
        max(state.differing, int(not state.equal)),
        state.differences,
        state.remark,
    )


def _amount(amount: Amount) -> StateAmount:
    return StateAmount(amount.count, f"{amount.digest:032x}")

"""What a comparison of two snapshots finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.snapshot.surgery import NO_SURGERY, Surgery

MOST_SHOWN = 10
"""Differences that are named, of each state."""


class Side(IntEnum):
    A = 0
    B = 1


BothFiles = tuple[SnapshotFiles, SnapshotFiles]
"""What the bytes of the two snapshots are read with, by side."""


@dataclass(frozen=True)
class Amount:
    """How much of a state a snapshot holds: what `StateDiff.counted` says, and a digest of all of it."""

    count: int = 0
    digest: int = 0


class Difference(NamedTuple):
    """`item` tells by name and value which record, element, … it is; `a` and `b` what the snapshots have of it."""

    found: str
    item: dict[str, str]
    a: str | None = None
    b: str | None = None


ONLY_IN = ("only in A", "only in B")
OTHER_VALUE, OTHER_NUMBER, OTHER_TYPE = "other value", "other number", "other type"


class ListedShape(NamedTuple):
    parallelism: int
    max_parallelism: int


@dataclass(frozen=True)
class StateDiff:
    """One state of an operator. There are `differing` differences at least, of which the first few are named.

    `remark` says what the differences have in common, if it is known.
    """

    state: str
    type: str
    counted: str
    a: Amount
    b: Amount
    differences: tuple[Difference, ...] = ()
    differing: int = 0
    remark: str | None = None

    @property
    def equal(self) -> bool:
        return self.a == self.b and not self.differences


@dataclass(frozen=True)
class OperatorDiff:
    """`differences` are those of the operator itself; a `shape` is None where the operator is not listed."""

    operator_id: str
    label: str
    shapes: tuple[ListedShape | None, ListedShape | None]
    states: tuple[StateDiff, ...]
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        return not self.differences and all(state.equal for state in self.states)


@dataclass(frozen=True)
class SnapshotDiff:
    """What two snapshots, known by their directories, hold of each operator; `a` after the `surgery`."""

    a: str
    b: str
    operators: tuple[OperatorDiff, ...]
    surgery: Surgery = NO_SURGERY

    @property
    def equal(self) -> bool:
        return all(operator.equal for operator in self.operators)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "verdict": "equal" if self.equal else "different",
            "equal": self.equal,
            "a": self.a,
            "b": self.b,
            "operators": [_operator(operator) for operator in self.operators],
            "surgery": self.surgery.document(),
        }


def _operator(operator: OperatorDiff) -> dict[str, Any]:
    a, b = operator.shapes
    return {
        "operator_id": operator.operator_id,
        "label": operator.label,
        "equal": operator.equal,
        "a": a._asdict() if a else None,
        "b": b._asdict() if b else None,
        "differences": [difference._asdict() for difference in operator.differences],
        "states": [_state(state) for state in operator.states],
    }


def _state(state: StateDiff) -> dict[str, Any]:
    return {
        "state": state.state,
        "type": state.type,
        "equal": state.equal,
        "counted": state.counted,
        "a": _amount(state.a),
        "b": _amount(state.b),
        "differing_at_least": max(state.differing, int(not state.equal)),
        "differences": [difference._asdict() for difference in state.differences],
        "remark": state.remark,
    }


def _amount(amount: Amount) -> dict[str, Any]:
    return {"count": amount.count, "digest": f"{amount.digest:032x}"}

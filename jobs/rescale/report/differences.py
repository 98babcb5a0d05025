"""The answer of `diff`: the comparison of two snapshots, as typed values."""

from __future__ import annotations

from typing import Literal

import msgspec

from rescale.snapshot.surgery import Surgery


class ListedDifference(msgspec.Struct, frozen=True):
    """A difference: `item` identifies the record or element by names and values, `a` and `b` describe each side."""

    found: str
    item: dict[str, str]
    a: str | None
    b: str | None


class ListedShape(msgspec.Struct, frozen=True):
    """The shape of an operator in one of the snapshots."""

    parallelism: int
    max_parallelism: int


class StateAmount(msgspec.Struct, frozen=True):
    """Size of a state in one of the snapshots, in the unit `counted`, and a digest (hex) of its content."""

    count: int
    digest: str


class DiffedState(msgspec.Struct, frozen=True):
    """Comparison of a state. `differences` lists the first differences; there are at least `differing_at_least`.

    `remark` explains the differences where they have a known common cause.
    """

    state: str
    type: str
    equal: bool
    counted: str
    a: StateAmount
    b: StateAmount
    differing_at_least: int
    differences: tuple[ListedDifference, ...]
    remark: str | None


class DiffedOperator(msgspec.Struct, frozen=True):
    """Comparison of an operator; `differences` concern the operator itself. `a` or `b` is null if it is missing."""

    operator_id: str
    label: str
    equal: bool
    a: ListedShape | None
    b: ListedShape | None
    differences: tuple[ListedDifference, ...]
    states: tuple[DiffedState, ...]


class DiffDocument(msgspec.Struct, frozen=True):
    """The answer of `diff`: `a` and `b` are the snapshots' directories; `surgery` changed A before it was compared."""

    verdict: Literal["equal", "different"]
    equal: bool
    a: str
    b: str
    operators: tuple[DiffedOperator, ...]
    surgery: Surgery

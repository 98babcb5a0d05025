"""The answer of `diff`: the comparison of two snapshots, as typed values."""

from __future__ import annotations

from typing import Literal

import msgspec

from rescale.snapshot.surgery import Surgery


class ListedDifference(msgspec.Struct, frozen=True):
    """A difference: its kind `found`, the values that name the `item`, and what snapshots `a` and `b` have there."""

    found: str
    item: dict[str, str]
    a: str | None
    b: str | None


class ListedShape(msgspec.Struct, frozen=True):
    """The shape of an operator in one of the snapshots."""

    parallelism: int
    max_parallelism: int


class StateAmount(msgspec.Struct, frozen=True):
    """A state in one of the snapshots: how much it holds (`DiffedState.counted`), and a digest (hex) of its content."""

    count: int
    digest: str


class DiffedState(msgspec.Struct, frozen=True):
    """Comparison of a state in two snapshots.

    `counted` is what the amounts count, such as records. `differences` lists the first differences; the states differ
    in `differing_at_least` items or more. `remark` explains the differences if they have a known common cause.
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
    """Comparison of an operator in two snapshots; `differences` concern the operator itself, not its states.

    `a` is null if the first snapshot lacks the operator, `b` if the second one does.
    """

    operator_id: str
    label: str
    equal: bool
    a: ListedShape | None
    b: ListedShape | None
    differences: tuple[ListedDifference, ...]
    states: tuple[DiffedState, ...]


class DiffDocument(msgspec.Struct, frozen=True):
    """The answer of `diff`: `a` and `b` are the snapshots' directories; `surgery` was applied to A before comparing."""

    verdict: Literal["equal", "different"]
    equal: bool
    a: str
    b: str
    operators: tuple[DiffedOperator, ...]
    surgery: Surgery

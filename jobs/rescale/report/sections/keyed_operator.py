"""An operator with keyed state, as the sections draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rescale.report.flows import KeyedShape


@dataclass(frozen=True)
class KeyedSide:
    """The bytes of every key group in one shape; `exact` is false where they are to be expected and not known."""

    name: str
    shape: KeyedShape
    sizes: Sequence[int]
    exact: bool

    @property
    def total(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class KeyedOperator:
    """`new` is None for a snapshot that nobody asked anything of. `hot` are key groups as insight has them."""

    label: str
    old: KeyedSide
    new: KeyedSide | None
    hot: Sequence[dict[str, Any]]

    @property
    def sides(self) -> list[KeyedSide]:
        return [self.old, *([self.new] if self.new is not None else [])]


def keyed_operators(operators: Sequence[dict[str, Any]], insight: dict[str, Any]) -> list[KeyedOperator]:
    """Of a plan's summary or of an inspection, those with most bytes first."""
    by_id = {operator["operator_id"]: operator for operator in operators}
    hot = {shape["operator_id"]: shape["hot"] for shape in insight["shapes"]}
    found = [
        _keyed(by_id[groups["operator_id"]], groups, hot.get(groups["operator_id"], ()))
        for groups in insight["key_groups"]
    ]
    return sorted(found, key=lambda operator: -operator.old.total)


def _keyed(operator: dict[str, Any], groups: dict[str, Any], hot: Sequence[dict[str, Any]]) -> KeyedOperator:
    planned = groups["after"] is not None
    old = KeyedSide(
        "before" if planned else "now",
        KeyedShape(operator["parallelism"], operator["max_parallelism"]),
        groups["before"],
        groups["exact"],
    )
    if not planned:
        return KeyedOperator(operator["label"], old, None, hot)
    shape = KeyedShape(operator["new_parallelism"], operator["new_max_parallelism"])
    return KeyedOperator(operator["label"], old, KeyedSide("after", shape, groups["after"], groups["after_exact"]), hot)

"""An operator with keyed state, as input of the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescale.insight.insight import Insight, KeyGroupBytes
from rescale.insight.shapes import HotKeyGroup
from rescale.report.documents import InspectedOperator, PlannedOperator
from rescale.report.flows import KeyedShape


@dataclass(frozen=True)
class KeyedSide:
    """Bytes of every key group of an operator in the old or the new shape; `is_exact` is false for estimates."""

    name: str
    shape: KeyedShape
    sizes: Sequence[int]
    is_exact: bool

    @property
    def total(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class KeyedOperator:
    """An operator with keyed state, in the old and the new shape.

    `new` is None without a plan, and `hot` are the hot key groups of the insight.
    """

    label: str
    old: KeyedSide
    new: KeyedSide | None
    hot: Sequence[HotKeyGroup]

    @property
    def sides(self) -> list[KeyedSide]:
        return [self.old, *([self.new] if self.new is not None else [])]


def keyed_operators(operators: Sequence[InspectedOperator | PlannedOperator], insight: Insight) -> list[KeyedOperator]:
    """Return the operators with keyed state of a plan or an inspection, the largest first."""
    operator_by_id = {operator.operator_id: operator for operator in operators}
    hot_groups_by_id = {advice.operator_id: advice.hot for advice in insight.shapes}
    with_keyed_state = [
        _keyed_operator(operator_by_id[groups.operator_id], groups, hot_groups_by_id.get(groups.operator_id, ()))
        for groups in insight.key_groups
    ]
    return sorted(with_keyed_state, key=lambda operator: -operator.old.total)


def _keyed_operator(
    operator: InspectedOperator | PlannedOperator, groups: KeyGroupBytes, hot: Sequence[HotKeyGroup]
) -> KeyedOperator:
    shape, side_after = KeyedShape(operator.parallelism, operator.max_parallelism), None
    if isinstance(operator, PlannedOperator) and groups.after is not None:
        new_shape = KeyedShape(operator.new_parallelism, operator.new_max_parallelism)
        side_after = KeyedSide("after", new_shape, groups.after, bool(groups.after_exact))
    side_before = KeyedSide("now" if side_after is None else "before", shape, groups.before, groups.exact)
    return KeyedOperator(operator.label, side_before, side_after, hot)

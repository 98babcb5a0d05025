"""Counts the elements of operator state in each subtask, before and after."""

from __future__ import annotations

from msgspec import UNSET

from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.plan.new_streams import CheckedElements, CopiedElements
from rescale.plan.operator_plan import OperatorPlan
from rescale.report.documents import DealtState
from rescale.snapshot.model import Operator

_StateKey = tuple[Slot, str, DistributionMode]


def dealt_elements(operator: Operator, planned: OperatorPlan | None = None) -> tuple[DealtState, ...]:
    """Return the number of elements of each operator state by subtask; with a plan, also by new subtask."""
    old_counts_by_key: dict[_StateKey, list[int]] = {}
    bytes_by_key: dict[_StateKey, int] = {}
    for slot, streams in ((Slot.OPERATOR, operator.element_streams), (Slot.RAW_OPERATOR, operator.raw_element_streams)):
        for stream in streams:
            for state in stream.states:
                key = (slot, state.name, state.mode)
                old_counts_by_key.setdefault(key, [0] * operator.parallelism)[stream.subtask] += len(state.elements)
                bytes_by_key[key] = bytes_by_key.get(key, 0) + sum(extent.length for extent in state.elements)
    new_counts_by_key = _planned_counts_by_key(planned) if planned is not None else {}
    return tuple(
        DealtState(
            state=name,
            mode=mode.name,
            raw=slot is Slot.RAW_OPERATOR,
            elements=sum(old_counts),
            bytes=bytes_by_key[slot, name, mode],
            per_subtask=tuple(old_counts),
            new_per_subtask=UNSET if planned is None else tuple(new_counts_by_key.get((slot, name, mode), ())),
        )
        for (slot, name, mode), old_counts in old_counts_by_key.items()
    )


def _planned_counts_by_key(planned: OperatorPlan) -> dict[_StateKey, list[int]]:
    counts_by_key: dict[_StateKey, list[int]] = {}
    element_streams = [stream for stream in planned.streams if isinstance(stream, CopiedElements | CheckedElements)]
    for stream in element_streams:
        for state in stream.states:
            key = (stream.slot, state.name, state.mode)
            counts_by_key.setdefault(key, [0] * planned.new_parallelism)[stream.subtask] += len(state.lengths)
    return counts_by_key

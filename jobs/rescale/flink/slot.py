"""The places in which a subtask keeps its state."""

from __future__ import annotations

from enum import StrEnum


class Slot(StrEnum):
    """Place for state in a subtask, one of four (`OperatorSubtaskState`)."""

    KEYED = "keyed"
    RAW_KEYED = "rawkeyed"
    OPERATOR = "operator"
    RAW_OPERATOR = "rawoperator"

    @property
    def is_keyed(self) -> bool:
        return self in KEYED_SLOTS


KEYED_SLOTS, OPERATOR_SLOTS = (Slot.KEYED, Slot.RAW_KEYED), (Slot.OPERATOR, Slot.RAW_OPERATOR)

"""The fields in which a snapshot keeps the state of a subtask."""

from __future__ import annotations

from enum import StrEnum


class Slot(StrEnum):
    """Field with state of a subtask (`OperatorSubtaskState`); not a task slot."""

    KEYED = "keyed"
    RAW_KEYED = "rawkeyed"
    OPERATOR = "operator"
    RAW_OPERATOR = "rawoperator"

    @property
    def is_keyed(self) -> bool:
        return self in KEYED_SLOTS


KEYED_SLOTS, OPERATOR_SLOTS = (Slot.KEYED, Slot.RAW_KEYED), (Slot.OPERATOR, Slot.RAW_OPERATOR)

"""What a result is declared to have otherwise than its source, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rescale.flink.metadata.handles import DistributionMode
from rescale.report.units import counted, human_bytes

DECLARED = "Declared differences"


def declared_lines(surgery: dict[str, Any]) -> list[str]:
    """A sentence for each, of a `Surgery` as JSON values."""
    return list(_lines(surgery))


def _lines(surgery: dict[str, Any]) -> Iterator[str]:
    for one in surgery["renamed"]:
        new = f"{one['uid']} ({one['new_operator_id']})" if one["uid"] else one["new_operator_id"]
        yield f"{_named(one)} is renamed to {new}"
    for one in surgery["dropped"]:
        states = ", ".join(map(_state, one["states"]))
        yield f"{_named(one)} is dropped: {human_bytes(one['bytes'])} of state are lost{': ' if states else ''}{states}"


def _named(one: dict[str, Any]) -> str:
    """What an operator was called, with its id."""
    old: str = one["label"]
    return old if one["operator_id"] in old else f"{old} ({one['operator_id']})"


def _state(state: dict[str, Any]) -> str:
    if state["elements"] is None:
        return f"{state['name']} ({state['type']})"
    words = ("copy", "copies") if DistributionMode.BROADCAST.name in state["type"] else ("element", "elements")
    return f"{state['name']} ({state['type']}, {counted(state['elements'], *words)})"

"""Refusals of key groups in the heap's own format whose entries cannot be read one by one."""

from __future__ import annotations

from rescale.flink.keyed.header import understood
from rescale.flink.keyed.heap.heap_entries import entry_layouts
from rescale.snapshot.model import Operator
from rescale.text.errors import RescaleError


def refuse_heap(operator: Operator) -> None:
    """Raise `UnsupportedError` if the lengths of the operator's heap entries are not known."""
    try:
        for header in {stream.header: stream.parsed for stream in operator.heap_streams}.values():
            entry_layouts(understood(header))
    except RescaleError as error:
        raise error.located(operator=operator.label) from None

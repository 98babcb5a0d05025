"""What stands against reading the heap's own key groups entry by entry."""

from __future__ import annotations

from rescale.errors import RescaleError
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.heap.heap_entries import entry_layouts
from rescale.snapshot.model import Operator


def refuse_heap(operator: Operator) -> None:
    """`UnsupportedError` where its entries cannot be told apart."""
    try:
        for header in {stream.header: stream.parsed for stream in operator.heap_streams}.values():
            entry_layouts(understood(header))
    except RescaleError as error:
        raise error.located(operator=operator.label) from None

"""What stands against reading the heap's own key groups entry by entry."""

from __future__ import annotations

from rescale.errors import RescaleError, UnsupportedError
from rescale.flink.advice import CANONICAL_RESULT
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.heap_entries import entry_layouts
from rescale.planning.request import Format
from rescale.snapshot.model import Operator


def refuse_heap(operator: Operator, wanted: Format) -> None:
    """`UnsupportedError` where its entries cannot be told apart, or would have to be written as the heap does."""
    streams = operator.heap_streams
    try:
        for header in {stream.header: stream.parsed for stream in streams}.values():
            entry_layouts(understood(header))
    except RescaleError as error:
        raise error.located(operator=operator.label) from None
    if streams and wanted is Format.KEEP:
        raise UnsupportedError(
            "the heap's own format is not written anew, and at another max parallelism no key group stays what it is",
            operator=operator.label,
            expected=f"max parallelism {operator.entry.max_parallelism}, or another format",
            found=f"heap framing in subtask {streams[0].subtask}",
            advice=CANONICAL_RESULT,
        )

"""Formats list and union elements and broadcast copies as text, for a reader of the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from rescale.execution.compare.diff.copies import LARGEST_COPY_BYTES, CopyUnit
from rescale.execution.compare.diff.differences import BothFiles, Side
from rescale.execution.compare.diff.items import DigestedItem
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.flink.operator_state import OperatorStateHeader
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.type_tree import TypeTree
from rescale.flink.serializers.value_format import format_bytes, format_value
from rescale.flink.state_meta_info import SerializerKey
from rescale.snapshot.model import ElementStream
from rescale.text.errors import SnapshotError, UnsupportedError
from rescale.text.units import counted

_MOST_BYTES_FORMATTED = 4096
_BYTES_SHOWN = 32
_MOST_BYTES_READ = 4 << 20


class ElementFormatter:
    """Formats elements of one operator state. `streams` are the operator's streams on both sides."""

    def __init__(
        self,
        files: BothFiles,
        state: str,
        streams: tuple[Sequence[ElementStream], Sequence[ElementStream]],
    ) -> None:
        self._files = files
        self._element_types = [_element_types((stream.parsed for stream in side), state) for side in streams]
        self._compressed_subtasks = [{stream.subtask for stream in side if stream.compressed} for side in streams]

    def format_value(self, side: Side, item: DigestedItem) -> str:
        """Return the element's value as text; if its type is unknown, or it is large, the beginning of its bytes."""
        first_bytes = self._files[side].beginning(item.extent, _MOST_BYTES_READ)
        if item.subtask in self._compressed_subtasks[side]:
            first_bytes = FramedDecompressor(has_identifier=False).feed(first_bytes)
        type_trees = self._element_types[side]
        if type_trees is not None and len(type_trees) == 1 and len(first_bytes) <= _MOST_BYTES_FORMATTED:
            with suppress(SnapshotError):
                reader = ByteReader(first_bytes)
                value_text = format_value(type_trees[0], reader)
                if not reader.remaining:
                    return value_text
        size_text = counted(item.extent.length, "byte")
        return f"{size_text} {format_bytes(first_bytes[:_BYTES_SHOWN])}{'…' if len(first_bytes) > _BYTES_SHOWN else ''}"

    def copy_unit(self, side: Side, item: DigestedItem) -> CopyUnit | None:
        """Return the copy of a broadcast state as a unit to compare by entry; None if its entries cannot be read."""
        type_trees = self._element_types[side]
        if type_trees is None or len(type_trees) != 2 or item.extent.length > LARGEST_COPY_BYTES:
            return None
        return CopyUnit(item.digest, side, item.extent, item.subtask in self._compressed_subtasks[side], type_trees)


def _element_types(headers: Iterable[OperatorStateHeader | None], state: str) -> tuple[TypeTree, ...] | None:
    """Return the type of a state's elements, or the types of a broadcast state's keys and values; None if unknown."""
    for header in headers:
        for info in header.states if header is not None else ():
            if info.name == state:
                serializers = (info.serializer(SerializerKey.KEY), info.serializer(SerializerKey.VALUE))
                try:
                    return tuple(
                        compile_program(serializer).tree for serializer in serializers if serializer is not None
                    )
                except UnsupportedError:
                    return None
    return None

"""The content of single elements, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from rescale.errors import SnapshotError, UnsupportedError
from rescale.execution.diff.copies import LARGEST_COPY, CopyUnit
from rescale.execution.diff.first_look import is_deflated
from rescale.execution.diff.found import BothFiles, Side
from rescale.execution.diff.items import Item
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.flink.operator_state import OperatorStateHeader
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.type_tree import TypeTree
from rescale.flink.serializers.value_words import bytes_in_words, in_words
from rescale.flink.state_meta_info import SerializerKey
from rescale.report.units import counted
from rescale.snapshot.model import ElementStream

_LARGEST_IN_WORDS = 4096
_BYTES_SHOWN = 32
_LARGEST_BEGINNING = 4 << 20


class Contents:
    """The elements of one state in both snapshots; `streams` are those that hold them, by side."""

    def __init__(
        self,
        files: BothFiles,
        state: str,
        streams: tuple[Sequence[ElementStream], Sequence[ElementStream]],
    ) -> None:
        self._files = files
        self._trees = [_trees((stream.parsed for stream in side), state) for side in streams]
        self._deflated = [{stream.subtask for stream in side if is_deflated(stream)} for side in streams]

    def in_words(self, side: Side, item: Item) -> str:
        """The element as values of its type are written, or the beginning of its bytes."""
        beginning = self._files[side].beginning(item.extent, _LARGEST_BEGINNING)
        if item.subtask in self._deflated[side]:
            beginning = FramedDecompressor(identifier=False).feed(beginning)
        trees = self._trees[side]
        if trees is not None and len(trees) == 1 and len(beginning) <= _LARGEST_IN_WORDS:
            with suppress(SnapshotError):
                reader = ByteReader(beginning)
                words = in_words(trees[0], reader)
                if not reader.remaining:
                    return words
        size = counted(item.extent.length, "byte")
        return f"{size} {bytes_in_words(beginning[:_BYTES_SHOWN])}{'…' if len(beginning) > _BYTES_SHOWN else ''}"

    def copy(self, side: Side, item: Item) -> CopyUnit | None:
        """The copy of a broadcast state, to be looked at by entry; None if that cannot be."""
        trees = self._trees[side]
        if trees is None or len(trees) != 2 or item.extent.length > LARGEST_COPY:
            return None
        return CopyUnit(item.digest, side, item.extent, item.subtask in self._deflated[side], trees)


def _trees(headers: Iterable[OperatorStateHeader | None], state: str) -> tuple[TypeTree, ...] | None:
    """What an element of a state is made of (of a broadcast state an entry), None if that is not known."""
    for header in headers:
        for info in (*header.list_states, *header.broadcast_states) if header is not None else ():
            if info.name == state:
                parts = (info.serializer(SerializerKey.KEY), info.serializer(SerializerKey.VALUE))
                try:
                    return tuple(compile_program(part).tree for part in parts if part is not None)
                except UnsupportedError:
                    return None
    return None

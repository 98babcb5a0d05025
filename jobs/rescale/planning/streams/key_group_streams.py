"""Plans keyed state whose key groups move whole: a new subtask gets its key groups from all old subtasks.

At the same max parallelism, a key group is copied as a range of bytes, without reading its records. Only if the headers
of old streams differ, its state ids are translated (`keyed_headers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import HandleTag
from rescale.flink.slot import Slot
from rescale.plan.new_streams import CopiedKeyGroups, TranslatedKeyGroups
from rescale.plan.pieces import Literals, Piece, merge_adjacent, piece_of
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.streams.inline import InlineBudget
from rescale.planning.streams.key_group_owners import owners_of
from rescale.planning.streams.keyed_headers import NO_HEADER, HeaderPlanner, PlannedHeader
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import Operator
from rescale.text.errors import UnsupportedError


@dataclass(frozen=True)
class KeyGroupPlanner:
    """Plans the new streams of one operator whose key groups move whole."""

    operator: Operator
    shape: Shape
    header_planner: HeaderPlanner
    literals: Literals
    budget: InlineBudget

    def streams(self) -> list[CopiedKeyGroups | TranslatedKeyGroups]:
        """Return the new streams of managed and raw keyed state."""
        return [*self._streams_in(Slot.KEYED, self.operator.keyed), *self.raw_streams()]

    def raw_streams(self) -> list[CopiedKeyGroups | TranslatedKeyGroups]:
        """Return the new streams of raw keyed state, timers included."""
        return self._streams_in(Slot.RAW_KEYED, self.operator.raw_keyed)

    def raw_streams_without_timers(self) -> list[CopiedKeyGroups | TranslatedKeyGroups]:
        """Return the new streams of raw keyed state other than timers."""
        return self._streams_in(Slot.RAW_KEYED, self.operator.raw_keyed_without_timers)

    def _streams_in(self, slot: Slot, sources: Sequence[KeyedStream]) -> list[CopiedKeyGroups | TranslatedKeyGroups]:
        owners = owners_of(self.operator, sources)
        source_by_subtask = {source.subtask: source for source in sources}
        max_parallelism = self.operator.max_parallelism
        planned_streams = []
        for subtask in range(self.shape.parallelism):
            new_range = key_group_range(max_parallelism, self.shape.parallelism, subtask)
            holder_subtasks = {owners[group].subtask for group in new_range if group in owners}
            old_streams = [source_by_subtask[old_subtask] for old_subtask in sorted(holder_subtasks)]
            stream = self._stream(slot, subtask, new_range, old_streams, owners) if old_streams else None
            if stream is not None:
                planned_streams.append(stream)
        return planned_streams

    def _stream(
        self,
        slot: Slot,
        subtask: int,
        new_range: KeyGroupRange,
        old_streams: Sequence[KeyedStream],
        owners: dict[int, KeyedStream],
    ) -> CopiedKeyGroups | TranslatedKeyGroups | None:
        header = self.header_planner.plan(old_streams, moves_whole_groups=True) if slot is Slot.KEYED else NO_HEADER
        is_heap = old_streams[0].framing is Framing.HEAP
        group_pieces = [
            self._key_group(key_group, owners.get(key_group), header, is_heap=is_heap) for key_group in new_range
        ]
        pieces = [header.piece, *(piece for piece in group_pieces if piece is not None)]
        if slot is Slot.RAW_KEYED and len(pieces) == 1:
            return None
        lengths = tuple(-1 if piece is None else piece.length for piece in group_pieces)
        is_inline = self.budget.try_take(sum(piece.length for piece in pieces))
        if any(piece.ids is not None for piece in pieces):
            return TranslatedKeyGroups(
                subtask=subtask,
                pieces=merge_adjacent(pieces),
                inline=is_inline,
                first_key_group=new_range.first,
                key_groups=lengths,
                compressed=header.parsed is not None and header.parsed.compressed,
            )
        return CopiedKeyGroups(
            slot=slot,
            subtask=subtask,
            pieces=merge_adjacent(pieces),
            inline=is_inline,
            first_key_group=new_range.first,
            key_groups=lengths,
            handle_tag=HandleTag.SAVEPOINT_KEY_GROUPS
            if old_streams[0].framing is Framing.CANONICAL
            else old_streams[0].handle_tag,
        )

    def _key_group(
        self, key_group: int, owner: KeyedStream | None, header: PlannedHeader, *, is_heap: bool
    ) -> Piece | None:
        """Return the piece of a key group in the stream of its `owner`; None if the key group is absent there.

        In a heap stream, an absent key group becomes an empty one.
        """
        extent = owner.groups[key_group - owner.first_key_group] if owner else None
        if owner is not None and extent is not None and owner.subtask not in header.rewritten_subtasks:
            return piece_of(extent, header.id_table_numbers.get(owner.subtask))
        return self.literals.add(self._empty_group(key_group, header.parsed)) if is_heap else None

    def _empty_group(self, key_group: int, header: KeyedHeader | None) -> bytes:
        if header is None:
            raise UnsupportedError(
                "some subtasks have no keyed state, and an unknown serializer hides the number of states",
                operator=self.operator.label,
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
        return empty_group(key_group, header)

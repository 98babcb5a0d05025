"""Keyed state by key group: every new subtask gets the key groups of its range, from wherever they lie.

Key groups are byte ranges and move unread. The stream's header is the only thing that two source streams can
disagree about: state ids are positions in its list of states, and a state that was registered late has another
position. Canonical framing lets the ids be translated; heap framing has no lengths to find them by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers, write_keyed_header
from rescale.flink.keyed.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.planning.plan import NewStream, Piece, Slot
from rescale.planning.snapshot import KeyedStream, Operator
from rescale.planning.streams import InlineBudget, Literals, joined, piece_of

CANONICAL_TAG = 7
"""`KeyGroupsSavepointStateHandle`: always canonical framing."""


@dataclass(frozen=True)
class _Header:
    """The header of a new stream, and what becomes of the key groups of source subtasks under it.

    `id_tables` has the numbers of the tables that translate ids; groups of subtasks in `anew` are written anew.
    """

    piece: Piece
    parsed: KeyedHeader | None
    id_tables: dict[int, int] = field(default_factory=dict)
    anew: frozenset[int] = frozenset()


class KeyedPlanner:
    """Plans the keyed streams of one operator at `new_parallelism`; collects the id tables that they need."""

    def __init__(self, operator: Operator, new_parallelism: int, literals: Literals, inline: InlineBudget) -> None:
        self.operator = operator
        self.new_parallelism = new_parallelism
        self.literals = literals
        self.inline = inline
        self.id_tables: list[tuple[int, ...]] = []

    def streams(self) -> list[NewStream]:
        return [
            *self._of_slot(Slot.KEYED, self.operator.keyed),
            *self._of_slot(Slot.RAW_KEYED, self.operator.raw_keyed),
        ]

    def _of_slot(self, slot: Slot, sources: Sequence[KeyedStream]) -> list[NewStream]:
        owners = _owners(self.operator, sources)
        by_subtask = {source.subtask: source for source in sources}
        max_parallelism = self.operator.entry.max_parallelism
        planned = []
        for subtask in range(self.new_parallelism):
            wanted = key_group_range(max_parallelism, self.new_parallelism, subtask)
            holding = {owners[group].subtask for group in range(wanted.first, wanted.last + 1) if group in owners}
            givers = [by_subtask[giver] for giver in sorted(holding)]
            stream = self._stream(slot, subtask, wanted, givers, owners) if givers else None
            if stream is not None:
                planned.append(stream)
        return planned

    def _stream(
        self,
        slot: Slot,
        subtask: int,
        wanted: KeyGroupRange,
        givers: Sequence[KeyedStream],
        owners: dict[int, KeyedStream],
    ) -> NewStream | None:
        header = self._header(givers) if slot is Slot.KEYED else _Header(Piece(None, 0, 0), None)
        pieces = [header.piece]
        lengths = []
        for key_group in range(wanted.first, wanted.last + 1):
            owner = owners.get(key_group)
            extent = owner.groups[key_group - owner.first_key_group] if owner else None
            heap = givers[0].framing is Framing.HEAP
            if extent is not None and owner is not None and owner.subtask not in header.anew:
                piece = piece_of(extent, header.id_tables.get(owner.subtask))
            elif heap:
                piece = self.literals.piece(self._empty_group(key_group, header.parsed))
            else:
                lengths.append(-1)
                continue
            lengths.append(piece.length)
            pieces.append(piece)
        if slot is Slot.RAW_KEYED and not any(length >= 0 for length in lengths):
            return None
        return NewStream(
            slot=slot,
            subtask=subtask,
            pieces=joined(pieces),
            inline=self.inline.takes(sum(piece.length for piece in pieces)),
            compressed=header.parsed is not None and header.parsed.compressed,
            tag=CANONICAL_TAG if givers[0].framing is Framing.CANONICAL else givers[0].tag,
            first_key_group=wanted.first,
            key_groups=tuple(lengths),
        )

    def _header(self, givers: Sequence[KeyedStream]) -> _Header:
        first = givers[0]
        if all(giver.header == first.header for giver in givers):
            return _Header(piece_of(first.extent.part(0, len(first.header))), first.parsed)
        parsed = [giver.parsed for giver in givers if giver.parsed is not None]
        if len(parsed) < len(givers):
            raise UnsupportedError(
                "the subtasks registered different states, and a serializer that is not known hides which",
                operator=self.operator.label,
                advice="take a savepoint after every subtask has registered all its states (in open())",
            )
        if all(giver.framing is Framing.CANONICAL for giver in givers):
            return self._merged(givers, parsed)
        return self._heap_header(givers, parsed)

    def _merged(self, givers: Sequence[KeyedStream], parsed: Sequence[KeyedHeader]) -> _Header:
        merged = merge_keyed_headers(parsed)
        tables = {
            giver.subtask: self._id_table(table)
            for giver, table in zip(givers, merged.id_maps, strict=True)
            if table != tuple(range(len(table)))
        }
        return _Header(self.literals.piece(write_keyed_header(merged.header)), merged.header, tables)

    def _heap_header(self, givers: Sequence[KeyedStream], parsed: Sequence[KeyedHeader]) -> _Header:
        """A header for all, where the streams with entries have the same states in the same places.

        A stream without a single entry (its subtask has not met a key, and so not registered every state) has nothing
        to translate: its groups are written anew, as empty as they are.
        """
        full = [header for giver, header in zip(givers, parsed, strict=True) if not giver.has_no_entry]
        merged = merge_keyed_headers(full or [max(parsed, key=lambda header: len(header.states))])
        same_places = all(table == tuple(range(len(merged.header.states))) for table in merged.id_maps)
        if not same_places or merge_keyed_headers([merged.header, *parsed]).header != merged.header:
            raise UnsupportedError(
                "the subtasks registered different states, and heap framing does not tell where a state begins",
                operator=self.operator.label,
                expected="the same states in every keyed stream",
                found=f"others in subtask {next(g.subtask for g in givers if g.parsed != merged.header)}",
                advice="take a canonical savepoint (flink savepoint --type canonical) and rescale that",
            )
        piece = self.literals.piece(write_keyed_header(merged.header))
        anew = frozenset(g.subtask for g in givers if g.has_no_entry and g.parsed != merged.header)
        return _Header(piece, merged.header, {}, anew)

    def _id_table(self, table: tuple[int, ...]) -> int:
        if table not in self.id_tables:
            self.id_tables.append(table)
        return self.id_tables.index(table)

    def _empty_group(self, key_group: int, header: KeyedHeader | None) -> bytes:
        if header is None:
            raise UnsupportedError(
                "some subtasks have no keyed state, and a serializer that is not known hides how many states there are",
                operator=self.operator.label,
                advice="take a canonical savepoint (flink savepoint --type canonical) and rescale that",
            )
        return empty_group(key_group, header)


def _owners(operator: Operator, sources: Sequence[KeyedStream]) -> dict[int, KeyedStream]:
    """Which stream holds each key group. `SnapshotError` where two do, or where the max parallelism is left."""
    owners: dict[int, KeyedStream] = {}
    for source in sources:
        if not 0 <= source.key_groups.first <= source.key_groups.last < operator.entry.max_parallelism:
            raise SnapshotError(
                "a keyed stream declares key groups that cannot be",
                operator=operator.label,
                expected=f"within 0 to {operator.entry.max_parallelism - 1}",
                found=f"{source.key_groups} in subtask {source.subtask}",
            )
        for key_group in range(source.key_groups.first, source.key_groups.last + 1):
            if key_group in owners:
                raise SnapshotError(
                    f"key group {key_group} lies in two keyed streams",
                    operator=operator.label,
                    found=f"subtasks {owners[key_group].subtask} and {source.subtask}",
                )
            owners[key_group] = source
    return owners

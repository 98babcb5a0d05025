"""Plans the header of a new keyed stream, and the translation of key groups that were written under another header.

A state id is a position in the header's list of states. If a subtask registered a state late, its header has another
order, so the headers of two source streams may disagree. In canonical framing the ids in the key groups can be
translated. Heap framing has no lengths by which to find the ids, so its entries must be read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.keyed.header import MOST_UNKNOWN_STATES, KeyedHeader, merge_keyed_headers, write_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import timer_header
from rescale.plan.pieces import Literals, Piece, piece_of
from rescale.snapshot.keyed_state import Changelog, KeyedStateHolder, KeyedStream
from rescale.text.errors import UnsupportedError, located


@dataclass(frozen=True)
class PlannedHeader:
    """The header of a new stream, and how key groups of source subtasks are translated to this header.

    `id_table_numbers` maps a source subtask to the number of the table that translates its state ids;
    `timer_id_table_numbers` does so for its raw timers. Key groups of `rewritten_subtasks`, which have no entries, are
    written as empty ones.
    """

    piece: Piece
    parsed: KeyedHeader | None
    id_table_numbers: dict[int, int] = field(default_factory=dict)
    timer_id_table_numbers: dict[int, int] = field(default_factory=dict)
    rewritten_subtasks: frozenset[int] = frozenset()

    @property
    def number_of_states(self) -> int:
        """Number of states in the header; an upper bound if a serializer is unknown."""
        return MOST_UNKNOWN_STATES if self.parsed is None else len(self.parsed.states)


NO_HEADER = PlannedHeader(Piece(None, 0, 0), None)
"""An empty header: raw keyed state is written without a header."""


class HeaderPlanner:
    """Plans headers for one operator, and collects the id tables that they need."""

    def __init__(self, label: str, literals: Literals) -> None:
        self.id_tables: list[tuple[int, ...]] = []
        self._label = label
        self._literals = literals

    def plan(
        self,
        old_holders: Sequence[KeyedStateHolder],
        timers: Sequence[KeyedStream] = (),
        omitted_states: Collection[str] = (),
        *,
        moves_whole_groups: bool = False,
    ) -> PlannedHeader:
        """Return the header for the key groups of all `old_holders`, without the `omitted_states`.

        `timers` are raw keyed timers, which the header describes as states. `moves_whole_groups` tells whether key
        groups move without being read. Raises `UnsupportedError` if the headers of the old holders cannot be merged.
        """
        first_holder = old_holders[0] if old_holders else None
        if (
            first_holder
            and not timers
            and not omitted_states
            and all(old_holder.header == first_holder.header for old_holder in old_holders)
        ):
            if isinstance(first_holder, Changelog):  # Rescale composed its header, so no file holds it
                return PlannedHeader(self._literals.add(first_holder.header), first_holder.parsed)
            return PlannedHeader(piece_of(first_holder.header_extent), first_holder.parsed)
        parsed_headers = [old_holder.parsed for old_holder in old_holders if old_holder.parsed is not None]
        if timers and len(parsed_headers) < len(old_holders):
            raise UnsupportedError(
                "raw keyed timers cannot become states: an unknown serializer hides the names of the other states",
                operator=self._label,
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
        if len(parsed_headers) < len(old_holders):
            raise UnsupportedError(
                "the subtasks registered different states, and an unknown serializer hides the state names",
                operator=self._label,
                advice="take a savepoint after every subtask has registered all its states (in open())",
            )
        if moves_whole_groups and any(old_holder.framing is Framing.HEAP for old_holder in old_holders):
            return self._heap_header(old_holders, parsed_headers)
        return self._merged_header(old_holders, parsed_headers, timers, omitted_states)

    def _merged_header(
        self,
        old_holders: Sequence[KeyedStateHolder],
        parsed_headers: Sequence[KeyedHeader],
        timers: Sequence[KeyedStream],
        omitted_states: Collection[str],
    ) -> PlannedHeader:
        compressed = bool(parsed_headers) and parsed_headers[0].compressed
        timer_headers = [timer_header(stream.timer_services or (), is_compressed=compressed) for stream in timers]
        with located(operator=self._label):
            merged_headers = merge_keyed_headers([*parsed_headers, *timer_headers], omitted_states)
        id_table_numbers = [self._id_table_number(id_table) for id_table in merged_headers.id_maps]
        return PlannedHeader(
            self._literals.add(write_keyed_header(merged_headers.header)),
            merged_headers.header,
            _number_by_subtask(old_holders, id_table_numbers),
            _number_by_subtask(timers, id_table_numbers[len(old_holders) :]),
        )

    def _heap_header(
        self, old_holders: Sequence[KeyedStateHolder], parsed_headers: Sequence[KeyedHeader]
    ) -> PlannedHeader:
        """Return a header for all old holders; those with entries must have the same states in the same order.

        A stream without entries may lack states, because its subtask has not seen a key yet. It needs no translation:
        its key groups are written as empty ones. Raises `UnsupportedError` if states or their order differ.
        """
        headers_with_entries = [
            header
            for old_holder, header in zip(old_holders, parsed_headers, strict=True)
            if not old_holder.has_no_entry
        ]
        merged_headers = merge_keyed_headers(
            headers_with_entries or [max(parsed_headers, key=lambda header: len(header.states))]
        )
        ids_stay = all(
            id_table == tuple(range(len(merged_headers.header.states))) for id_table in merged_headers.id_maps
        )
        differing_holders = [holder for holder in old_holders if holder.parsed != merged_headers.header]
        if (
            not ids_stay
            or merge_keyed_headers([merged_headers.header, *parsed_headers]).header != merged_headers.header
        ):
            raise UnsupportedError(
                "the subtasks registered different states, and the heap's format does not mark where a state begins",
                operator=self._label,
                expected="the same states in every keyed stream",
                found=f"others in subtask {differing_holders[0].subtask}",
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
        piece = self._literals.add(write_keyed_header(merged_headers.header))
        rewritten_subtasks = frozenset(holder.subtask for holder in differing_holders if holder.has_no_entry)
        return PlannedHeader(piece, merged_headers.header, rewritten_subtasks=rewritten_subtasks)

    def _id_table_number(self, id_table: tuple[int, ...]) -> int | None:
        """Return the number of a table that translates state ids; None for a table that leaves every id as it is."""
        if id_table == tuple(range(len(id_table))):
            return None
        if id_table not in self.id_tables:
            self.id_tables.append(id_table)
        return self.id_tables.index(id_table)


def _number_by_subtask(old_holders: Sequence[KeyedStateHolder], numbers: Sequence[int | None]) -> dict[int, int]:
    return {
        old_holder.subtask: number
        for old_holder, number in zip(old_holders, numbers, strict=False)
        if number is not None
    }

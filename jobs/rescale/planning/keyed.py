"""Keyed state by key group: every new subtask gets the key groups of its range, from wherever they lie.

At the same max parallelism key groups are byte ranges and move unread; at another one every record may go elsewhere,
and all that can be said beforehand is which records are read, and what header the new streams have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import KeyedHeader, is_compressed, write_keyed_header
from rescale.flink.keyed.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import HandleTag
from rescale.planning.keyed_headers import NO_HEADER, HeaderPlanner
from rescale.planning.plan import NewStream, RekeyedDatabase, RekeyedSource, Rekeying, Slot
from rescale.planning.shape import Shape
from rescale.planning.streams import InlineBudget, Literals, joined, piece_of
from rescale.snapshot.model import Database, KeyedStream, Operator

Holder = TypeVar("Holder", KeyedStream, KeyedStream | Database)
"""Of the state of some key groups."""


class KeyedPlanner:
    """Plans the keyed streams of one operator in its new shape; collects the id tables that they need."""

    def __init__(self, operator: Operator, shape: Shape, literals: Literals, inline: InlineBudget) -> None:
        self.operator = operator
        self.shape = shape
        self.literals = literals
        self.inline = inline
        self.headers = HeaderPlanner(operator.label, literals)

    @property
    def id_tables(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self.headers.id_tables)

    def streams(self) -> list[NewStream]:
        """Of key groups that move as they are."""
        return [*self._of_slot(Slot.KEYED, self.operator.keyed), *self.raw_streams()]

    def raw_streams(self) -> list[NewStream]:
        return self._of_slot(Slot.RAW_KEYED, self.operator.raw_keyed)

    def own_raw_streams(self) -> list[NewStream]:
        """Of raw keyed state that is no timers."""
        return self._of_slot(Slot.RAW_KEYED, self.operator.own_raw_keyed)

    def rekeyed(self, key_hash: str | None) -> tuple[Rekeying | None, list[NewStream]]:
        """Of records that get new key groups; None where there is no keyed state."""
        givers: tuple[KeyedStream | Database, ...] = (*self.operator.keyed, *self.operator.databases)
        timers = self.operator.heap_timers
        _refuse_to_rekey(self.operator, self.shape.max_parallelism)
        if not givers and not timers:
            return None, []
        _owners(self.operator, givers)
        _owners(self.operator, timers)
        header = self.headers.plan(givers, timers)
        tables = header.id_tables
        sources = [_rekeyed_source(source, tables.get(source.subtask)) for source in self.operator.keyed]
        rekeying = Rekeying(
            sources=(*sources, *(self._rekeyed_timers(one, header.timer_id_tables.get(one.subtask)) for one in timers)),
            header=header.piece,
            compressed=bool(givers) and is_compressed(givers[0].header),
            key_hash=key_hash,
            databases=tuple(_rekeyed_database(one, tables.get(one.subtask)) for one in self.operator.databases),
        )
        streams = []
        for subtask in range(self.shape.parallelism):
            own = key_group_range(self.shape.max_parallelism, self.shape.parallelism, subtask)
            streams.append(
                NewStream(
                    slot=Slot.KEYED,
                    subtask=subtask,
                    pieces=(header.piece,),
                    inline=False,
                    compressed=rekeying.compressed,
                    tag=HandleTag.SAVEPOINT_KEY_GROUPS,
                    first_key_group=own.first,
                    key_groups=(0,) * len(own),
                    rekeyed=True,
                )
            )
        return rekeying, streams

    def _rekeyed_timers(self, timers: KeyedStream, ids: int | None) -> RekeyedSource:
        assert timers.parsed is not None
        header = self.literals.piece(write_keyed_header(timers.parsed))
        return _rekeyed_source(timers, ids)._replace(timers=header)

    def _of_slot(self, slot: Slot, sources: Sequence[KeyedStream]) -> list[NewStream]:
        owners = _owners(self.operator, sources)
        by_subtask = {source.subtask: source for source in sources}
        max_parallelism = self.operator.entry.max_parallelism
        planned = []
        for subtask in range(self.shape.parallelism):
            wanted = key_group_range(max_parallelism, self.shape.parallelism, subtask)
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
        header = self.headers.plan(givers) if slot is Slot.KEYED else NO_HEADER
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
            tag=HandleTag.SAVEPOINT_KEY_GROUPS if givers[0].framing is Framing.CANONICAL else givers[0].tag,
            first_key_group=wanted.first,
            key_groups=tuple(lengths),
        )

    def _empty_group(self, key_group: int, header: KeyedHeader | None) -> bytes:
        if header is None:
            raise UnsupportedError(
                "some subtasks have no keyed state, and a serializer that is not known hides how many states there are",
                operator=self.operator.label,
                advice="take a canonical savepoint (flink savepoint --type canonical) and rescale that",
            )
        return empty_group(key_group, header)


def _owners(operator: Operator, sources: Sequence[Holder]) -> dict[int, Holder]:
    """Which stream holds each key group. `SnapshotError` where two do, or where the max parallelism is left."""
    owners: dict[int, Holder] = {}
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


def _rekeyed_source(source: KeyedStream, ids: int | None) -> RekeyedSource:
    groups = tuple(None if group is None else (group.start, group.length) for group in source.groups)
    return RekeyedSource(source.extent.file, source.first_key_group, groups, ids)


def _rekeyed_database(database: Database, ids: int | None) -> RekeyedDatabase:
    files = tuple((file.name, piece_of(file.extent)) for file in database.files)
    key_groups = (database.key_groups.first, database.key_groups.last)
    return RekeyedDatabase(key_groups, database.key_group_sizes, files, piece_of(database.header_extent), ids)


def _refuse_to_rekey(operator: Operator, new_max_parallelism: int) -> None:
    """Only canonical framing says where a record ends; raw keyed state that is no timers is the user's own."""
    heap = [stream for stream in operator.keyed if stream.framing is not Framing.CANONICAL]
    if heap:
        raise UnsupportedError(
            "heap framing does not tell where a record ends, so no record can get another key group",
            operator=operator.label,
            expected=f"canonical keyed state, to change the max parallelism to {new_max_parallelism}",
            found=f"heap framing in subtask {heap[0].subtask}",
            advice="take a canonical savepoint (flink savepoint --type canonical) and rescale that",
        )
    if operator.own_raw_keyed and new_max_parallelism != operator.entry.max_parallelism:
        raise UnsupportedError(
            "raw keyed state is in a format of the operator's own, key group by key group",
            operator=operator.label,
            expected=f"no raw keyed state, to change the max parallelism to {new_max_parallelism}",
            found=f"a stream of it in {len(operator.own_raw_keyed)} subtasks",
            advice=f"keep its max parallelism, {operator.entry.max_parallelism}; if these are timers of keys whose "
            "serializer is not known, take a canonical savepoint, where they are state like any other",
        )

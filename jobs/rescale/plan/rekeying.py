"""Keyed state whose records get new key groups: its sources in the snapshot, and its new streams."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rescale.flink.slot import Slot
from rescale.plan.continuation import BaseDatabase
from rescale.plan.new_streams import RekeyedStream
from rescale.plan.pieces import Piece
from rescale.snapshot.places import ChangePlace, DatabasePlace, Place, StreamPlace


class PlannedSource(NamedTuple):
    """Records of the source that get new key groups: their place, whose headers are pieces.

    `ids` is the number of the operator's table that translates state ids, None if they stay. `estimates` are the
    estimated bytes of each key group; a stream needs none, because its place has them.
    """

    place: Place[Piece]
    ids: int | None
    estimates: tuple[int, ...] = ()

    @property
    def key_group_sizes(self) -> tuple[int, ...]:
        """Bytes of each key group, estimated unless the place is that of a stream."""
        match self.place:
            case StreamPlace(groups=groups):
                return tuple(group[1] if group is not None else 0 for group in groups)
            case _:
                return self.estimates


_WORK_OF_ROWS, _WORK_OF_CHANGES = 3, 0.25
"""Bytes of a key-group stream that are as much work as a byte of a database, whose rows are compressed, and as a byte
of changed files, of which most rows are only compared, not written."""


def work_of(place: Place[Piece]) -> int:
    """Return the bytes of key-group streams that would be as much work as the records at a place."""
    match place:
        case DatabasePlace():
            return place.size * _WORK_OF_ROWS
        case ChangePlace():
            return int(place.size * _WORK_OF_CHANGES)
        case _:
            return place.size


@dataclass(frozen=True)
class Rekeying:
    """Records of an operator that get new key groups: their `sources`, and their new `streams`, all of one type.

    Sources are in the order in which they are read; streams, which can be read in parts, come last. Timers on the heap
    beside a database come from streams. `header` describes the states of each new stream; `number_of_states`
    counts them, or is a bound if a serializer is unknown.

    `key_hash` is the name of the rule that computes a key's hash from its bytes (`choose_key_hashes`); None if it is
    unknown and not needed. `compressed` applies to source and result.

    If an earlier result is continued, the sources are changes, and `bases` has the directory with which each new stream
    begins, in order.
    """

    sources: tuple[PlannedSource, ...]
    header: Piece
    number_of_states: int
    compressed: bool
    key_hash: str | None
    streams: tuple[RekeyedStream, ...]
    bases: tuple[BaseDatabase, ...] = ()

    @property
    def databases(self) -> list[tuple[PlannedSource, DatabasePlace[Piece]]]:
        """The sources that are RocksDB directories, with their places."""
        return [(source, source.place) for source in self.sources if isinstance(source.place, DatabasePlace)]

    @property
    def changes(self) -> list[ChangePlace[Piece]]:
        """The places of changes since the result that is continued."""
        return [source.place for source in self.sources if isinstance(source.place, ChangePlace)]

    @property
    def base_bytes(self) -> int:
        """Bytes of the files of directories that are continued."""
        return sum(base.database.size for base in self.bases)

    @property
    def stream_type(self) -> type[RekeyedStream]:
        """Type of all new streams."""
        return type(self.streams[0])

    @property
    def slot(self) -> Slot:
        """Slot of all new streams."""
        return self.streams[0].slot

    @property
    def work(self) -> int:
        """Bytes of key-group streams that would be as much work as the sources."""
        return sum(work_of(source.place) for source in self.sources)

    @property
    def bytes(self) -> int:
        """Bytes of the source; those of databases and changelogs are estimated."""
        return sum(size for _, size in self.key_group_sizes())

    def key_group_sizes(self) -> Iterator[tuple[int, int]]:
        """Yield (old key group, bytes) of all sources; those of databases and changelogs are estimated."""
        for source in self.sources:
            yield from enumerate(source.key_group_sizes, source.place.key_groups[0])

    def expected_key_groups(self, old: int, new: int) -> tuple[int, ...]:
        """Return the estimated bytes of each new key group, if the max parallelism `old` becomes `new`.

        Old and new key group are remainders of the same hash, so they are equal modulo the greatest common divisor of
        both maxima. Among the new key groups with this remainder, all are equally likely. If the new maximum divides
        the old one, the result is exact.
        """
        classes = [0] * math.gcd(old, new)
        for key_group, size in self.key_group_sizes():
            classes[key_group % len(classes)] += size
        each = new // len(classes)
        return tuple(classes[key_group % len(classes)] // each for key_group in range(new))

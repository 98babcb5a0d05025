"""*Rekeying* of keyed state: its records are read from the snapshot one by one, and written into new streams.

`is_rewritten_by_record` lists the reasons, such as another max parallelism.
"""

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
    """A source of rekeyed records; the headers in its `place` are pieces (`Piece`).

    `ids` is the number of the operator's table that translates state ids; None if the ids stay. `estimates` are the
    estimated bytes of each key group; empty for a stream, whose place has the exact sizes.
    """

    place: Place[Piece]
    ids: int | None
    estimates: tuple[int, ...] = ()

    @property
    def key_group_sizes(self) -> tuple[int, ...]:
        """Bytes of each key group: exact for a stream, else estimated."""
        match self.place:
            case StreamPlace(groups=groups):
                return tuple(length for _, length in (group or (0, 0) for group in groups))
            case _:
                return self.estimates


_WORK_PER_DATABASE_BYTE, _WORK_PER_CHANGED_BYTE = 3, 0.25
"""Work for a byte of a database, and of changed files; the work for a byte of a key-group stream is 1.

A database takes more, because its rows are compressed; changed files take less, because most of their rows are only
compared, not written.
"""


def work_bytes_of(place: Place[Piece]) -> int:
    """Return the work to move the records at a place: the bytes of a key-group stream that takes as long to move."""
    match place:
        case DatabasePlace():
            return place.size * _WORK_PER_DATABASE_BYTE
        case ChangePlace():
            return int(place.size * _WORK_PER_CHANGED_BYTE)
        case _:
            return place.size


@dataclass(frozen=True)
class Rekeying:
    """Rekeyed records of an operator: their `sources`, and their new `streams`, all of one type.

    Sources are in the order in which they are read; key-group streams, which can be read in parts, come last. Timers on
    the heap beside a database are in key-group streams, too. `header` describes the states of each new stream;
    `number_of_states` counts them, or is an upper bound if a serializer is unknown.

    `key_hash` is the name of the rule that computes a key's hash from its bytes (`choose_key_hashes`); None if it is
    unknown and not needed. `compressed` tells whether key groups are compressed, in sources and streams.

    If an earlier result is continued, the sources are changes, and `bases` has the directory that each new stream
    continues, in the order of `streams`.
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
        """Bytes of the files of the base's directories, if an earlier result is continued."""
        return sum(base.database.size for base in self.bases)

    @property
    def stream_type(self) -> type[RekeyedStream]:
        return type(self.streams[0])

    @property
    def slot(self) -> Slot:
        return self.streams[0].slot

    @property
    def work_bytes(self) -> int:
        """Work to move all sources, in the unit of `work_bytes_of`."""
        return sum(work_bytes_of(source.place) for source in self.sources)

    @property
    def bytes(self) -> int:
        """Bytes of all sources, estimated for databases and changelogs."""
        return sum(size for _, size in self.key_group_sizes())

    def key_group_sizes(self) -> Iterator[tuple[int, int]]:
        """Yield (old key group, bytes) of all sources; the bytes are estimated for databases and changelogs."""
        for source in self.sources:
            yield from enumerate(source.key_group_sizes, source.place.key_groups[0])

    def expected_key_group_bytes(self, old_maximum: int, new_maximum: int) -> tuple[int, ...]:
        """Return the estimated bytes of each new key group after a change of the max parallelism.

        The old and the new key group of a record are remainders of the same hash, so they are equal modulo the greatest
        common divisor of both max parallelisms. All new key groups with this remainder are equally likely. If the new
        max parallelism divides the old one, the result is as exact as the sizes of the sources.
        """
        residue_class_bytes = [0] * math.gcd(old_maximum, new_maximum)
        for key_group, size in self.key_group_sizes():
            residue_class_bytes[key_group % len(residue_class_bytes)] += size
        groups_per_class = new_maximum // len(residue_class_bytes)
        return tuple(
            residue_class_bytes[key_group % len(residue_class_bytes)] // groups_per_class
            for key_group in range(new_maximum)
        )

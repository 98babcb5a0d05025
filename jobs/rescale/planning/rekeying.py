"""Keyed state whose records get new key groups: which are read, and what there is to know of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rescale.planning.pieces import Piece


class RekeyedSource(NamedTuple):
    """The key groups of one source stream, from `first_key_group` on, whose records get new ones.

    `groups` holds where each begins in the file and how long it is; None for one that is not there. `ids` is the
    number of the operator's table that translates state ids, None where they stay. `timers` is there if the stream is
    of raw keyed timers: the header of the states that they become.
    """

    file: int
    first_key_group: int
    groups: tuple[tuple[int, int] | None, ...]
    ids: int | None
    timers: Piece | None = None


class RekeyedDatabase(NamedTuple):
    """A RocksDB directory whose rows get new key groups: its files by name, its header, and what it speaks for.

    `ids` as in `RekeyedSource`. `key_group_sizes` is how many bytes of its files belong to each key group, about.
    """

    key_groups: tuple[int, int]
    key_group_sizes: tuple[int, ...]
    files: tuple[tuple[str, Piece], ...]
    header: Piece
    ids: int | None

    @property
    def size(self) -> int:
        return sum(piece.length for _, piece in self.files)


@dataclass(frozen=True)
class Rekeying:
    """How the records of an operator's keyed state get new key groups. `header` is that of every new stream.

    They come from key-group streams or from `databases`; timers that are kept on the heap beside a database come from
    streams. `sources` are all streams.

    `key_hash` names the rule that a key's hash follows from its bytes by (`choose_key_hash`); None where there is none
    and none is needed. `compressed` holds for source and result.
    """

    sources: tuple[RekeyedSource, ...]
    header: Piece
    compressed: bool
    key_hash: str | None
    databases: tuple[RekeyedDatabase, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.key_group_sizes())

    def key_group_sizes(self) -> Iterator[tuple[int, int]]:
        """(old key group, bytes); those of databases are estimated."""
        for source in self.sources:
            for key_group, group in enumerate(source.groups, source.first_key_group):
                yield key_group, group[1] if group is not None else 0
        for database in self.databases:
            yield from enumerate(database.key_group_sizes, database.key_groups[0])

"""Keyed state whose records get new key groups: which are read, and what there is to know of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rescale.flink.slot import Slot
from rescale.planning.values.new_streams import RekeyedStream, SourceFiles
from rescale.planning.values.pieces import Piece


class RekeyedSource(NamedTuple):
    """The key groups of one source stream, from `first_key_group` on, whose records get new ones.

    `groups` holds where each begins in the file and how long it is; None for one that is not there. `ids` is the
    number of the operator's table that translates state ids, None where they stay. `timers` is there if the stream is
    of raw keyed timers: the header of the states that they are read as. `heap` is there if its key groups have heap
    framing: its own header.
    """

    file: int
    first_key_group: int
    groups: tuple[tuple[int, int] | None, ...]
    ids: int | None
    timers: Piece | None = None
    heap: Piece | None = None


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


class MaterialisedGroups(NamedTuple):
    """The key groups of a stream that a changelog stands on, with its header; `heap`: they have heap framing."""

    file: int
    first_key_group: int
    groups: tuple[tuple[int, int] | None, ...]
    header: Piece
    heap: bool


class LoggedChanges(NamedTuple):
    """A file of changes, in which a set of them begins at `offset`; a list of them where that is None."""

    file: Piece
    offset: int | None


class RekeyedChangelog(NamedTuple):
    """What a subtask had materialised, and the changes since, whose records get new key groups.

    `header` is that of what comes of both. `ids` as in `RekeyedSource`. How many bytes belong to each key group is not
    known: `key_group_sizes` are as if all had as many. `log_size` counts those of the changes.
    """

    key_groups: tuple[int, int]
    key_group_sizes: tuple[int, ...]
    streams: tuple[MaterialisedGroups, ...]
    databases: tuple[SourceFiles, ...]
    changes: tuple[LoggedChanges, ...]
    log_size: int
    header: Piece
    ids: int | None

    @property
    def size(self) -> int:
        groups = (group[1] for stream in self.streams for group in stream.groups if group is not None)
        return self.log_size + sum(groups) + sum(database.size for database in self.databases)


@dataclass(frozen=True)
class Rekeying:
    """How records of an operator get new key groups: where they come from, and the `streams` of one sort they come to.

    They come from key-group streams, from `databases` or from `changelogs`; timers that are kept on the heap beside a
    database come from streams. `sources` are all streams. `header` says which states every new stream has.

    `key_hash` names the rule that a key's hash follows from its bytes by (`choose_key_hashes`); None where there is
    none and none is needed. `compressed` holds for source and result.
    """

    sources: tuple[RekeyedSource, ...]
    header: Piece
    compressed: bool
    key_hash: str | None
    streams: tuple[RekeyedStream, ...]
    databases: tuple[RekeyedDatabase, ...] = ()
    changelogs: tuple[RekeyedChangelog, ...] = ()

    @property
    def read_whole(self) -> tuple[RekeyedDatabase | RekeyedChangelog, ...]:
        """What a task reads from end to end."""
        return (*self.databases, *self.changelogs)

    @property
    def slot(self) -> Slot:
        return self.streams[0].slot

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.key_group_sizes())

    def key_group_sizes(self) -> Iterator[tuple[int, int]]:
        """(old key group, bytes); those of databases and changelogs are estimated."""
        for source in self.sources:
            for key_group, group in enumerate(source.groups, source.first_key_group):
                yield key_group, group[1] if group is not None else 0
        for holder in self.read_whole:
            yield from enumerate(holder.key_group_sizes, holder.key_groups[0])

    def expected_key_groups(self, old: int, new: int) -> tuple[int, ...]:
        """Bytes to expect in each new key group, where the max parallelism `old` becomes `new`.

        A hash fixes the remainders of all maxima at once: a record stays in its class modulo their greatest common
        divisor, and within it every new key group is as likely. Where the new maximum divides the old, that is exact.
        """
        classes = [0] * math.gcd(old, new)
        for key_group, size in self.key_group_sizes():
            classes[key_group % len(classes)] += size
        each = new // len(classes)
        return tuple(classes[key_group % len(classes)] // each for key_group in range(new))

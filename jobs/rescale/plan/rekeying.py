"""Keyed state whose records get new key groups: its sources in the snapshot, and its new streams."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rescale.flink.slot import Slot
from rescale.plan.continuation import ChangedDatabase, Continuation
from rescale.plan.new_streams import RekeyedStream, SourceFiles
from rescale.plan.pieces import Piece


class RekeyedSource(NamedTuple):
    """Key groups of a source stream, from `first_key_group` on, whose records get new key groups.

    `groups` has (start, length) of each key group in the file, None for an absent one. `ids` is the number of the
    operator's table that translates state ids, None if they stay. Raw keyed timers are read as states, whose header is
    `timers`. For key groups in heap framing, `heap` is the stream's header.
    """

    file: int
    first_key_group: int
    groups: tuple[tuple[int, int] | None, ...]
    ids: int | None
    timers: Piece | None = None
    heap: Piece | None = None

    def part(self, first: int, behind: int) -> RekeyedSource:
        """Return the key groups `first` to `behind` (exclusive), counted from the first one."""
        return self._replace(first_key_group=self.first_key_group + first, groups=self.groups[first:behind])

    @property
    def key_groups(self) -> tuple[int, int]:
        """First and last key group."""
        return self.first_key_group, self.first_key_group + len(self.groups) - 1

    @property
    def key_group_sizes(self) -> tuple[int, ...]:
        """Bytes of each key group."""
        return tuple(group[1] if group is not None else 0 for group in self.groups)


class RekeyedDatabase(NamedTuple):
    """A RocksDB directory whose rows get new key groups.

    Only rows of `key_groups` (first, last) count. `key_group_sizes` estimates the bytes of each. `ids` is as in
    `RekeyedSource`.
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
    """Key groups of a stream in the materialised base of a changelog; `heap` says whether they have heap framing."""

    file: int
    first_key_group: int
    groups: tuple[tuple[int, int] | None, ...]
    header: Piece
    heap: bool


class LoggedChanges(NamedTuple):
    """A change set at `offset` of a file; with None, the piece is a list of changes in `_metadata`."""

    file: Piece
    offset: int | None


class RekeyedChangelog(NamedTuple):
    """A changelog whose records get new key groups: the materialised base of a subtask, and the changes since.

    `header` describes the state after the changes. `ids` is as in `RekeyedSource`. The bytes of each key group are
    unknown, so `key_group_sizes` assumes even sizes. `log_size` is the size of the changes in bytes.
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


RecordsOfPlan = RekeyedSource | RekeyedDatabase | RekeyedChangelog | ChangedDatabase
"""A source of records in a plan; all types have `key_groups` (first, last) and `key_group_sizes`."""


@dataclass(frozen=True)
class Rekeying:
    """Records of an operator that get new key groups: their sources, and their new `streams`, all of one type.

    The sources are key-group streams (`sources`), `databases` or `changelogs`. Timers on the heap beside a database
    come from streams. `header` describes the states of each new stream.

    `key_hash` is the name of the rule that computes a key's hash from its bytes (`choose_key_hashes`); None if it is
    unknown and not needed. `compressed` applies to source and result.

    If an earlier result is `continued`, only changed files are read.
    """

    sources: tuple[RekeyedSource, ...]
    header: Piece
    compressed: bool
    key_hash: str | None
    streams: tuple[RekeyedStream, ...]
    databases: tuple[RekeyedDatabase, ...] = ()
    changelogs: tuple[RekeyedChangelog, ...] = ()
    continued: Continuation | None = None

    @cached_property
    def in_reading_order(self) -> tuple[RecordsOfPlan, ...]:
        """All sources, in the order in which they are read; key-group streams, which can be read in parts, last."""
        if self.continued is not None:
            return (*self.continued.changes, *self.sources)
        return (*self.databases, *self.changelogs, *self.sources)

    @property
    def stream_type(self) -> type[RekeyedStream]:
        """Type of all new streams."""
        return type(self.streams[0])

    @property
    def slot(self) -> Slot:
        """Slot of all new streams."""
        return self.streams[0].slot

    @property
    def bytes(self) -> int:
        """Bytes of the source; those of databases and changelogs are estimated."""
        return sum(size for _, size in self.key_group_sizes())

    def key_group_sizes(self) -> Iterator[tuple[int, int]]:
        """Yield (old key group, bytes) of all sources; those of databases and changelogs are estimated."""
        for source in self.in_reading_order:
            yield from enumerate(source.key_group_sizes, source.key_groups[0])

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

"""Places of records: where the bytes of a subtask's keyed state lie in the files of a snapshot, for each kind of state.

Plans and readers use the same places with different headers, of type `H`. A header describes the states of the records.
In a plan, `H` is the `Piece` with the header's bytes. For a reader, `H` is the parsed header, or None if the header has
an unknown serializer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.header import is_compressed
from rescale.flink.keyed.key_group_table import Framing
from rescale.snapshot.keyed_state import Changelog, ChangeSet, Database, DatabaseFile, KeyedStateHolder, KeyedStream
from rescale.snapshot.locate import Extent

H = TypeVar("H")
G = TypeVar("G")


class StreamPlace(msgspec.Struct, Generic[H], frozen=True, array_like=True, tag="stream"):
    """Key groups of a stream from `first_key_group` on: the (start, length) of each in the file, None if it is absent.

    Key groups in `RAW` framing hold timers. Canonical key groups may be `compressed`, and can be read without a header.
    """

    header: H
    file: int
    framing: Framing
    compressed: bool
    first_key_group: int
    groups: tuple[tuple[int, int] | None, ...]

    @property
    def key_groups(self) -> tuple[int, int]:
        """First and last key group."""
        return self.first_key_group, self.first_key_group + len(self.groups) - 1

    @property
    def size(self) -> int:
        return sum(length for _, length in filter(None, self.groups))

    @property
    def extents(self) -> list[tuple[int, Extent]]:
        """(key group, extent) of every key group that is not absent."""
        return [
            (key_group, Extent(self.file, *group))
            for key_group, group in enumerate(self.groups, self.first_key_group)
            if group is not None
        ]

    def part(self, key_range: KeyGroupRange) -> StreamPlace[H]:
        """Return the place of the key groups that lie in the range `key_range`."""
        common_range = key_range.intersection(KeyGroupRange(*self.key_groups))
        first_index = common_range.first - self.first_key_group
        return msgspec.structs.replace(
            self, first_key_group=common_range.first, groups=self.groups[first_index : first_index + len(common_range)]
        )

    def with_headers(self, read: Callable[[H], G]) -> StreamPlace[G]:
        """Return the same place with the header `read(header)`."""
        return StreamPlace(
            read(self.header), self.file, self.framing, self.compressed, self.first_key_group, self.groups
        )


class DatabasePlace(msgspec.Struct, Generic[H], frozen=True, array_like=True, tag="database"):
    """The files of a RocksDB directory; only rows in `key_groups` (first, last) are live."""

    header: H
    key_groups: tuple[int, int]
    files: tuple[DatabaseFile, ...]

    @property
    def size(self) -> int:
        return sum(file.extent.length for file in self.files)

    def renumbered(self, new_numbers: Sequence[int]) -> DatabasePlace[H]:
        """Return the same place in another list of files; `new_numbers` has the new number of each file."""
        files = (file._replace(extent=file.extent._replace(file=new_numbers[file.extent.file])) for file in self.files)
        return msgspec.structs.replace(self, files=tuple(files))

    def with_headers(self, read: Callable[[H], G]) -> DatabasePlace[G]:
        return DatabasePlace(read(self.header), self.key_groups, self.files)


class ChangelogPlace(msgspec.Struct, Generic[H], frozen=True, array_like=True, tag="changelog"):
    """A changelog of `key_groups` (first, last): the places of its materialised state, and the changes after that.

    The header describes the state after the changes. `log_size` counts the bytes of the changes.
    """

    header: H
    key_groups: tuple[int, int]
    base: tuple[StreamPlace[H] | DatabasePlace[H], ...]
    changes: tuple[ChangeSet, ...]
    log_size: int

    @property
    def size(self) -> int:
        return self.log_size + sum(part.size for part in self.base)

    def with_headers(self, read: Callable[[H], G]) -> ChangelogPlace[G]:
        """Return the same place, with `read` applied to its header and to the headers of its base parts."""
        base = tuple(part.with_headers(read) for part in self.base)
        return ChangelogPlace(read(self.header), self.key_groups, base, self.changes, self.log_size)


class ChangeSide(NamedTuple, Generic[H]):
    """A RocksDB directory in one of two checkpoints, and the names of the SST files whose keys are read."""

    database: DatabasePlace[H]
    files_to_read: tuple[str, ...]


class PassedFile(NamedTuple):
    """Transient SST file `name` of a state: it was written and compacted away between two checkpoints.

    The name of this class is part of the published schema of plans.
    """

    state: str
    name: str
    extent: Extent


class ChangePlace(msgspec.Struct, Generic[H], frozen=True, array_like=True, tag="changes"):
    """The changes of a RocksDB directory between two checkpoints.

    `before` and `after` are the directory in each checkpoint, None if the checkpoint lacks it. Both have the key groups
    `key_groups` (first, last). The header names the states to read, in order. `transient` are files that neither
    directory has, but that may have changed keys.
    """

    header: H
    key_groups: tuple[int, int]
    before: ChangeSide[H] | None
    after: ChangeSide[H] | None
    transient: tuple[PassedFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the SST files whose keys are read."""
        sides = (side for side in (self.before, self.after) if side is not None)
        unshared_bytes = sum(
            file.extent.length for side in sides for file in side.database.files if file.name in side.files_to_read
        )
        return unshared_bytes + sum(file.extent.length for file in self.transient)

    def with_headers(self, read: Callable[[H], G]) -> ChangePlace[G]:
        """Return the same place, with `read` applied to its header and to those of `before` and `after`."""
        before, after = (
            ChangeSide(side.database.with_headers(read), side.files_to_read) if side is not None else None
            for side in (self.before, self.after)
        )
        return ChangePlace(read(self.header), self.key_groups, before, after, self.transient)


Place: TypeAlias = StreamPlace[H] | DatabasePlace[H] | ChangelogPlace[H] | ChangePlace[H]
"""Place of the records of a subtask. Each has `key_groups` (first, last), and the `size` of what is read, in bytes."""


def stream_place(stream: KeyedStream, header: H) -> StreamPlace[H]:
    """Return the place of a stream's key groups, or of the timers in it."""
    groups = tuple(None if group is None else (group.start, group.length) for group in stream.groups)
    compressed = stream.framing is Framing.CANONICAL and is_compressed(stream.header)
    return StreamPlace(header, stream.extent.file, stream.framing, compressed, stream.first_key_group, groups)


def database_place(database: Database, header: H) -> DatabasePlace[H]:
    """Return the place of a RocksDB directory."""
    return DatabasePlace(header, (database.key_groups.first, database.key_groups.last), database.files)


def changelog_place(changelog: Changelog, header_of: Callable[[KeyedStateHolder], H]) -> ChangelogPlace[H]:
    """Return the place of a changelog; `header_of` returns the header of the changelog and of each base part."""
    return ChangelogPlace(
        header_of(changelog),
        (changelog.key_groups.first, changelog.key_groups.last),
        tuple(
            stream_place(part, header_of(part))
            if isinstance(part, KeyedStream)
            else database_place(part, header_of(part))
            for part in changelog.base
        ),
        changelog.changes,
        changelog.log_size,
    )

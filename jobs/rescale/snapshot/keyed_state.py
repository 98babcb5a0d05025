"""Keyed state of one subtask: a stream of key groups, a RocksDB directory, or a changelog on top of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.header import KeyedHeader, require_header
from rescale.flink.keyed.heap.heap import is_empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService
from rescale.flink.metadata.handles import KeyedHandle
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.snapshot.locate import Extent


@dataclass(frozen=True)
class KeyedStream:
    """The keyed stream of one subtask.

    `handle_tag` is the `HandleTag` of the stream's handle. `groups` are the extents of the key groups from
    `first_key_group` on, None for an absent key group. `header` is empty for raw keyed state; `parsed` is None if the
    header has an unknown serializer.

    If raw keyed state holds timers, `timer_services` are their services. Then `parsed` is the header that canonical
    state would have for these timers, None if there is no service. `has_hidden_timers` is True if raw keyed state
    begins with timers, but their services are unknown, because a timer contains an object of a subclass
    (`HiddenTimerError`).
    """

    subtask: int
    handle_tag: int
    extent: Extent
    framing: Framing
    first_key_group: int
    groups: tuple[Extent | None, ...]
    header: bytes
    parsed: KeyedHeader | None
    timer_services: tuple[TimerService, ...] | None = None
    has_hidden_timers: bool = False

    @property
    def key_groups(self) -> KeyGroupRange:
        return KeyGroupRange(self.first_key_group, self.first_key_group + len(self.groups) - 1)

    @property
    def header_extent(self) -> Extent:
        return self.extent.part(0, len(self.header))

    @property
    def size(self) -> int:
        return self.extent.length

    @property
    def file_numbers(self) -> tuple[int, ...]:
        return (self.extent.file,)

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states, by state id; empty if the header has an unknown serializer."""
        return self.parsed.names if self.parsed is not None else ()

    @property
    def present_groups(self) -> Iterator[tuple[int, Extent]]:
        """(key group, extent) of every key group that is not absent."""
        for key_group, extent in enumerate(self.groups, self.first_key_group):
            if extent is not None:
                yield key_group, extent

    @property
    def filled_groups(self) -> Iterator[tuple[int, Extent]]:
        """(key group, extent) of every key group, except heap key groups whose length shows that they are empty."""
        header = self.parsed if self.framing is Framing.HEAP else None
        for key_group, extent in self.present_groups:
            if header is None or not is_empty_group(extent.length, header):
                yield key_group, extent

    @cached_property
    def has_no_entry(self) -> bool:
        """Whether this is a heap stream in which no key group has an entry."""
        is_known = self.framing is Framing.HEAP and self.parsed is not None
        return is_known and next(self.filled_groups, None) is None


class DatabaseFile(NamedTuple):
    """A file of a RocksDB directory: its name in the directory, and the extent of its bytes."""

    name: str
    extent: Extent


class LiveTable(NamedTuple):
    """An SST file of a RocksDB directory: the id of its state, its entry in the MANIFEST, and its extent."""

    state_id: int
    file: LiveFile
    extent: Extent


@dataclass(frozen=True)
class Database:
    """The keyed state of one subtask as a RocksDB directory; only rows in `key_groups` are live.

    `header_extent` is the extent of the meta stream, which describes the states, and `header` are its bytes; `parsed`
    is as for `KeyedStream`. `with_tables` sets `tables` and `source` from the MANIFEST, and `with_key_group_sizes` sets
    `measured_sizes`, the bytes of each key group.
    """

    subtask: int
    key_groups: KeyGroupRange
    header_extent: Extent
    header: bytes
    parsed: KeyedHeader | None
    files: tuple[DatabaseFile, ...]
    tables: tuple[LiveTable, ...] = ()
    source: SourceDatabase | None = None
    measured_sizes: tuple[int, ...] = ()

    framing = Framing.CANONICAL
    """Framing of the records: a row has the content of a canonical record (`RocksDBKeyedStateBackend`)."""

    has_no_entry = False

    @property
    def known_source(self) -> SourceDatabase:
        """The `source`, which `with_tables` has set."""
        if self.source is None:
            raise ValueError(f"the MANIFEST of subtask {self.subtask} was not read")
        return self.source

    @property
    def states(self) -> frozenset[str]:
        """Names of the states. Raises `UnsupportedError` if the header has an unknown serializer."""
        return frozenset(require_header(self.parsed).names)

    @property
    def size(self) -> int:
        return self.header_extent.length + sum(file.extent.length for file in self.files)

    @property
    def file_numbers(self) -> tuple[int, ...]:
        return (self.header_extent.file, *(file.extent.file for file in self.files))

    @property
    def key_group_sizes(self) -> tuple[int, ...]:
        """Bytes of each key group, in equal shares if they were not measured."""
        key_group_count = len(self.key_groups)
        return self.measured_sizes or (self.size // max(key_group_count, 1),) * key_group_count


class ChangeSet(NamedTuple):
    """Changes of a changelog: the change set at `offset` of `extent`, or a list in `_metadata` (`offset` None)."""

    extent: Extent
    offset: int | None


@dataclass(frozen=True)
class Changelog:
    """The keyed state of one subtask as a changelog: the materialised `base`, and all later changes.

    Only rows in `key_groups` are live. `base` may be empty or have several parts, which may hold other key groups, too.
    `parsed` is the header of the state after all changes, None if a serializer is unknown. No file has this header:
    Rescale composes its bytes, `header`. `logged_states` are the names of the states that the changes describe, and
    `log_size` is the size of the changes in bytes.
    """

    subtask: int
    key_groups: KeyGroupRange
    base: tuple[KeyedStream | Database, ...]
    changes: tuple[ChangeSet, ...]
    log_size: int
    header: bytes
    parsed: KeyedHeader | None
    logged_states: frozenset[str] = frozenset()

    framing = Framing.CANONICAL
    """Framing of the records that result from the base and all changes."""

    has_no_entry = False

    @property
    def size(self) -> int:
        return self.log_size + sum(part.size for part in self.base)

    @property
    def key_group_sizes(self) -> tuple[int, ...]:
        """Bytes of each key group, in equal shares."""
        key_group_count = len(self.key_groups)
        return (self.size // max(key_group_count, 1),) * key_group_count

    @property
    def file_numbers(self) -> tuple[int, ...]:
        numbers_of_base = (number for part in self.base for number in part.file_numbers)
        return (*(change_set.extent.file for change_set in self.changes), *numbers_of_base)


KeyedStateHolder: TypeAlias = KeyedStream | Database | Changelog
"""Keyed state of a subtask whose records can be read: a stream, a RocksDB directory or a changelog."""


@dataclass(frozen=True)
class OtherKeyed:
    """Keyed state of a kind that cannot be read; `size` is the size of its files in bytes."""

    subtask: int
    handle: KeyedHandle
    size: int

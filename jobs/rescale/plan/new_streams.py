"""Types of new state streams; the type determines how a stream is written.

    copied key groups       ranges of bytes of the source, end to end; several tasks can copy parts of them
    translated key groups   key groups of the source with other state ids; one task writes the whole stream
    copied elements         elements of operator state; several tasks can copy parts of them
    checked elements        compressed elements, which are decompressed and checked while they are copied
    rekeyed key groups      canonical key groups of records that are read one by one; the plan knows only the header
    rekeyed rows            such records in a RocksDB directory
    rekeyed heap groups     such records in the heap state backend's format
    rekeyed timers          timers with new key groups in raw keyed state, for timers on the heap beside RocksDB
    compacted rows          a RocksDB directory made of files of other directories; RocksDB rewrites some of them
    copied file             a file of a RocksDB directory; several tasks can copy parts of it

Sizes are in bytes. The size of a translated stream is that of its source. All types have a `slot`, a `subtask`, a
`size`, and a `local_name`: the name of a file in its RocksDB directory, "" for other streams. `inline` tells whether
`_metadata` holds the stream, and `is_canonical` whether it has the canonical format.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.metadata.handles import DistributionMode, HandleTag
from rescale.flink.slot import Slot
from rescale.plan.pieces import Piece
from rescale.snapshot.places import DatabasePlace

META_STREAM = "METADATA"
"""`local_name` of the header of a RocksDB directory, which is not a file of the database."""


class StateElements(NamedTuple):
    """A state in a stream of operator state; `lengths` are the sizes of its elements in bytes, in order."""

    name: str
    mode: DistributionMode
    lengths: tuple[int, ...]


class _MadeOfPieces(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that consists of its pieces, end to end; if it has a header, the header comes first."""

    subtask: int
    pieces: tuple[Piece, ...]
    inline: bool

    @property
    def size(self) -> int:
        return sum(piece.length for piece in self.pieces)


class _KeyGroups(_MadeOfPieces, frozen=True, kw_only=True):
    """A stream of key groups; `key_groups` are their sizes from `first_key_group` on, -1 for an absent key group."""

    first_key_group: int
    key_groups: tuple[int, ...]

    local_name: ClassVar[str] = ""

    @property
    def header_size(self) -> int:
        """Bytes before the first key group."""
        return self.size - sum(length for length in self.key_groups if length > 0)

    @property
    def key_group_range(self) -> KeyGroupRange:
        return KeyGroupRange(self.first_key_group, self.first_key_group + len(self.key_groups) - 1)


class CopiedKeyGroups(_KeyGroups, frozen=True, kw_only=True, tag="copied key groups"):
    """Key groups copied from the source; `handle_tag` is the tag of the stream's handle (`HandleTag`)."""

    slot: Slot
    handle_tag: int

    @property
    def is_canonical(self) -> bool:
        return self.handle_tag == HandleTag.SAVEPOINT_KEY_GROUPS


class TranslatedKeyGroups(_KeyGroups, frozen=True, kw_only=True, tag="translated key groups"):
    """Canonical key groups whose state ids are translated; each piece names the table for its ids (`Piece.ids`)."""

    slot: ClassVar[Slot] = Slot.KEYED
    handle_tag: ClassVar[int] = HandleTag.SAVEPOINT_KEY_GROUPS
    is_canonical: ClassVar[bool] = True

    compressed: bool


class _Elements(_MadeOfPieces, frozen=True, kw_only=True):
    """A stream of operator state; `states` has the lengths of the elements of each state."""

    states: tuple[StateElements, ...]

    key_groups: ClassVar[tuple[int, ...]] = ()
    is_canonical: ClassVar[bool] = False
    key_group_range: ClassVar[None] = None
    local_name: ClassVar[str] = ""

    @property
    def header_size(self) -> int:
        """Bytes before the first element."""
        return self.size - sum(sum(state.lengths) for state in self.states)


class CopiedElements(_Elements, frozen=True, kw_only=True, tag="copied elements"):
    """Elements copied from the source."""

    slot: Slot


class CheckedElements(_Elements, frozen=True, kw_only=True, tag="checked elements"):
    """Compressed elements, each of which must consist of whole snappy chunks."""

    slot: ClassVar[Slot] = Slot.OPERATOR


class CopiedFile(_MadeOfPieces, frozen=True, kw_only=True, tag="copied file"):
    """A copied file of a subtask's RocksDB directory (`NewDatabase`)."""

    local_name: str

    key_groups: ClassVar[tuple[int, ...]] = ()
    slot: ClassVar[Slot] = Slot.KEYED
    is_canonical: ClassVar[bool] = False
    key_group_range: ClassVar[None] = None


class _KeyGroupStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of `key_groups` key groups from `first_key_group` on; `header` describes their states."""

    subtask: int
    header: Piece
    first_key_group: int
    key_groups: int

    local_name: ClassVar[str] = ""

    @property
    def key_group_range(self) -> KeyGroupRange:
        return KeyGroupRange(self.first_key_group, self.first_key_group + self.key_groups - 1)


class _RekeyedRecords(_KeyGroupStream, frozen=True, kw_only=True):
    """A header, then records from any subtasks of the source, as key groups or as a RocksDB directory."""

    slot: ClassVar[Slot] = Slot.KEYED
    inline: ClassVar[bool] = False
    """The writer decides what is stored in `_metadata`, because the plan does not know the size."""

    @property
    def size(self) -> int:
        """Bytes that the plan knows, which are those of the header."""
        return self.header.length

    @property
    def header_size(self) -> int:
        return self.header.length


class RekeyedKeyGroups(_RekeyedRecords, frozen=True, kw_only=True, tag="rekeyed key groups"):
    """Rekeyed records in canonical key groups; `compressed` applies to the key groups, not to the header."""

    compressed: bool

    handle_tag: ClassVar[int] = HandleTag.SAVEPOINT_KEY_GROUPS
    is_canonical: ClassVar[bool] = True


class RekeyedHeapGroups(_RekeyedRecords, frozen=True, kw_only=True, tag="rekeyed heap groups"):
    """Rekeyed records in the heap backend's format; `handle_tag` is the tag of the stream's handle (`HandleTag`)."""

    handle_tag: int

    is_canonical: ClassVar[bool] = False


class RekeyedDirectory(_RekeyedRecords, frozen=True, kw_only=True, tag="rekeyed rows"):
    """A RocksDB directory of new files, with records from any subtasks of the source.

    `created` is the creation time of the files (seconds since 1970), by which RocksDB finds old files to compact.
    """

    created: int

    is_canonical: ClassVar[bool] = False


class RekeyedTimers(_KeyGroupStream, frozen=True, kw_only=True, tag="rekeyed timers"):
    """Raw keyed timers from any subtasks of the source.

    `header` is not part of the stream: it describes the timers of all timer services as states (`timer_header`).
    `handle_tag` is the tag of the stream's handle (`HandleTag`).
    """

    handle_tag: int

    slot: ClassVar[Slot] = Slot.RAW_KEYED
    is_canonical: ClassVar[bool] = False
    inline: ClassVar[bool] = False
    header_size: ClassVar[int] = 0
    size: ClassVar[int] = 0
    """Bytes that the plan knows: none."""


class CompactedDirectory(_KeyGroupStream, frozen=True, kw_only=True, tag="compacted rows"):
    """A RocksDB directory made of the files of `sources`; it will have about `size` bytes.

    RocksDB rewrites the files that also hold rows of other subtasks' key groups.
    """

    sources: tuple[DatabasePlace[Piece], ...]
    size: int
    inline: bool

    slot: ClassVar[Slot] = Slot.KEYED
    is_canonical: ClassVar[bool] = False


PlannedStream = CopiedKeyGroups | TranslatedKeyGroups | CopiedElements | CheckedElements | CopiedFile
"""Streams for which the plan says where each of their bytes comes from."""

RekeyedStream = RekeyedKeyGroups | RekeyedDirectory | RekeyedTimers | RekeyedHeapGroups
"""Streams for which the plan knows only which records of the source they may contain."""

NewStream = PlannedStream | RekeyedStream | CompactedDirectory


class NewDatabase(NamedTuple):
    """The RocksDB directory of a new subtask: copied files (`CopiedFile`), and files of the source that it refers to.

    `referred` has (name in the directory, piece of the source) for each file of the source.
    """

    subtask: int
    first_key_group: int
    key_groups: int
    referred: tuple[tuple[str, Piece], ...] = ()

    @property
    def key_group_range(self) -> KeyGroupRange:
        return KeyGroupRange(self.first_key_group, self.first_key_group + self.key_groups - 1)

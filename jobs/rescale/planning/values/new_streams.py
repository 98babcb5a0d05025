"""The sorts of new state streams. A stream says by its type how it is made; only what makes it asks for the type.

    copied key groups       runs of bytes of the source, end to end: may be cut anywhere, so that many tasks copy it
    translated key groups   the same, but with other state ids: read and written from end to end
    copied elements         of operator state: may be cut anywhere
    checked elements        compressed ones, which are looked into on the way
    rekeyed key groups      its header; what follows is known when every record has been looked at
    rekeyed rows            the same as a RocksDB directory, whose files are known when they are written
    rekeyed heap groups     the same in the heap's own format
    rekeyed timers          the same as raw keyed state, where those lie that RocksDB keeps on the heap
    compacted rows          a RocksDB directory of the files of others, of which RocksDB rewrites some
    copied file             one of a RocksDB directory: may be cut anywhere

Sizes are in bytes; those of translated streams are of the source that they are made from. All sorts have a `slot`, a
`subtask`, a `size`, and a `local_name`: what their file is called beside these, empty but for files of a directory.
Each says whether it is `inline` in `_metadata`, whether it `is_canonical`, and which key groups it `covers`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.metadata.handles import DistributionMode, HandleTag
from rescale.flink.slot import Slot
from rescale.planning.values.pieces import Piece

META_STREAM = "METADATA"
"""The local name that stands for the stream with a database's header, which is no file of it."""


class StateElements(NamedTuple):
    """One state of an operator stream: the length in bytes of each of its elements, in order."""

    name: str
    mode: DistributionMode
    lengths: tuple[int, ...]


class _MadeOfPieces(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of `subtask` that is its pieces end to end, a header first where its slot has one."""

    subtask: int
    pieces: tuple[Piece, ...]
    inline: bool

    @property
    def size(self) -> int:
        return sum(piece.length for piece in self.pieces)


class _KeyGroups(_MadeOfPieces, frozen=True, kw_only=True):
    """`key_groups` are the lengths of the key groups from `first_key_group` on, -1 for one that is absent."""

    first_key_group: int
    key_groups: tuple[int, ...]

    local_name: ClassVar[str] = ""

    @property
    def header_size(self) -> int:
        """What lies before the first key group."""
        return self.size - sum(length for length in self.key_groups if length > 0)

    @property
    def covers(self) -> KeyGroupRange:
        return KeyGroupRange(self.first_key_group, self.first_key_group + len(self.key_groups) - 1)


class CopiedKeyGroups(_KeyGroups, frozen=True, kw_only=True, tag="copied key groups"):
    """`handle_tag` is that of its handle (`HandleTag`)."""

    slot: Slot
    handle_tag: int

    @property
    def is_canonical(self) -> bool:
        return self.handle_tag == HandleTag.SAVEPOINT_KEY_GROUPS


class TranslatedKeyGroups(_KeyGroups, frozen=True, kw_only=True, tag="translated key groups"):
    """Canonical ones; those whose piece has `ids` get the state ids of that table."""

    slot: ClassVar[Slot] = Slot.KEYED
    handle_tag: ClassVar[int] = HandleTag.SAVEPOINT_KEY_GROUPS
    is_canonical: ClassVar[bool] = True

    compressed: bool


class _Elements(_MadeOfPieces, frozen=True, kw_only=True):
    """`states` say what elements follow."""

    states: tuple[StateElements, ...]

    key_groups: ClassVar[tuple[int, ...]] = ()
    is_canonical: ClassVar[bool] = False
    covers: ClassVar[None] = None
    local_name: ClassVar[str] = ""

    @property
    def header_size(self) -> int:
        """What lies before the first element."""
        return self.size - sum(sum(state.lengths) for state in self.states)


class CopiedElements(_Elements, frozen=True, kw_only=True, tag="copied elements"):
    slot: Slot


class CheckedElements(_Elements, frozen=True, kw_only=True, tag="checked elements"):
    """Compressed ones, whose offsets Flink once got wrong."""

    slot: ClassVar[Slot] = Slot.OPERATOR


class CopiedFile(_MadeOfPieces, frozen=True, kw_only=True, tag="copied file"):
    """A file of a subtask's RocksDB directory (`NewDatabase`), by its name there."""

    local_name: str

    key_groups: ClassVar[tuple[int, ...]] = ()
    slot: ClassVar[Slot] = Slot.KEYED
    is_canonical: ClassVar[bool] = False
    covers: ClassVar[None] = None


class _OfKeyGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Of `key_groups` key groups from `first_key_group` on, whose bytes are not known; `header` says what they hold."""

    subtask: int
    header: Piece
    first_key_group: int
    key_groups: int

    local_name: ClassVar[str] = ""

    @property
    def covers(self) -> KeyGroupRange:
        return KeyGroupRange(self.first_key_group, self.first_key_group + self.key_groups - 1)


class _RekeyedGroups(_OfKeyGroups, frozen=True, kw_only=True):
    """Their records lie anywhere in the source. `header` comes first."""

    slot: ClassVar[Slot] = Slot.KEYED
    inline: ClassVar[bool] = False
    """It may be, but that is decided when its size is known."""

    @property
    def size(self) -> int:
        """Of what is known of it."""
        return self.header.length

    @property
    def header_size(self) -> int:
        return self.header.length


class RekeyedKeyGroups(_RekeyedGroups, frozen=True, kw_only=True, tag="rekeyed key groups"):
    """Canonical key groups. Their header is never compressed; they are if `compressed`."""

    compressed: bool

    handle_tag: ClassVar[int] = HandleTag.SAVEPOINT_KEY_GROUPS
    is_canonical: ClassVar[bool] = True


class RekeyedHeapGroups(_RekeyedGroups, frozen=True, kw_only=True, tag="rekeyed heap groups"):
    """Key groups of the heap's own. `handle_tag` is that of their handle (`HandleTag`)."""

    handle_tag: int

    is_canonical: ClassVar[bool] = False


class _Directory(_OfKeyGroups, frozen=True, kw_only=True):
    """A RocksDB directory."""

    slot: ClassVar[Slot] = Slot.KEYED
    is_canonical: ClassVar[bool] = False


class RekeyedRows(_Directory, frozen=True, kw_only=True, tag="rekeyed rows"):
    """Records that lie anywhere in the source, in new files, which say when they were `created` (seconds since 1970).

    RocksDB compacts files anew when they are old.
    """

    created: int

    inline: ClassVar[bool] = False
    """Its files may be, but that is decided when their sizes are known."""

    @property
    def size(self) -> int:
        """Of what is known of it."""
        return self.header.length


class RekeyedTimers(_OfKeyGroups, frozen=True, kw_only=True, tag="rekeyed timers"):
    """Raw keyed timers, which lie anywhere in the source.

    `header` is no part of it: it says which services there are, by their states (`timer_header`). `handle_tag` is that
    of its handle (`HandleTag`).
    """

    handle_tag: int

    slot: ClassVar[Slot] = Slot.RAW_KEYED
    is_canonical: ClassVar[bool] = False
    inline: ClassVar[bool] = False
    header_size: ClassVar[int] = 0
    size: ClassVar[int] = 0
    """Of what is known of it."""


class SourceFiles(NamedTuple):
    """A RocksDB directory of the source, which speaks for the key groups from first to last: header, files by name."""

    key_groups: tuple[int, int]
    header: Piece
    files: tuple[tuple[str, Piece], ...]

    @property
    def size(self) -> int:
        return sum(piece.length for _, piece in self.files)


class CompactedRows(_Directory, frozen=True, kw_only=True, tag="compacted rows"):
    """The files of `sources`, of which RocksDB rewrites those with rows of other key groups; about `size` bytes."""

    sources: tuple[SourceFiles, ...]
    size: int
    inline: bool


PlannedStream = CopiedKeyGroups | TranslatedKeyGroups | CopiedElements | CheckedElements | CopiedFile
"""Of these is known beforehand where in the source every byte lies."""

RekeyedStream = RekeyedKeyGroups | RekeyedRows | RekeyedTimers | RekeyedHeapGroups
"""Of these is known which records of the source they may hold."""

NewStream = PlannedStream | RekeyedStream | CompactedRows


class NewDatabase(NamedTuple):
    """The RocksDB directory of a new subtask: its copied files, and whole files of the source that it refers to.

    `referred` has these by their names in the directory; they stay where they are.
    """

    subtask: int
    first_key_group: int
    key_groups: int
    referred: tuple[tuple[str, Piece], ...] = ()

    @property
    def covers(self) -> KeyGroupRange:
        return KeyGroupRange(self.first_key_group, self.first_key_group + self.key_groups - 1)

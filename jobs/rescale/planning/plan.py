"""The plan: which bytes of which source file become which new state stream, decided once.

A plan is data. The same snapshot and request give the same plan and the same digest; everything after it only
executes it, so the bytes of the result depend on the plan alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import msgspec

from rescale.errors import SnapshotError
from rescale.flink.key_groups import subtask_of_key_group
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.start import Start, start_of
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.contract import Pin

FORMAT = 4

META_STREAM = "METADATA"
"""The local name that stands for the stream with a database's header, which is no file of it."""


class Slot(StrEnum):
    """The four places for state that a subtask has (`OperatorSubtaskState`)."""

    KEYED = "keyed"
    RAW_KEYED = "rawkeyed"
    OPERATOR = "operator"
    RAW_OPERATOR = "rawoperator"

    @property
    def is_keyed(self) -> bool:
        return self in (Slot.KEYED, Slot.RAW_KEYED)


class WorkClass(StrEnum):
    """How keyed state is moved, by what becomes of the max parallelism."""

    RELOCATE = "relocate"
    """It stays: whole key groups are copied, unread."""

    REGROUP = "regroup"
    """The new one divides the old one: a record's new key group is the old one modulo the new maximum."""

    REHASH = "rehash"
    """Any other: the key of every record is hashed anew."""


def work_class(max_parallelism: int, new_max_parallelism: int) -> WorkClass:
    if new_max_parallelism == max_parallelism:
        return WorkClass.RELOCATE
    return WorkClass.REHASH if max_parallelism % new_max_parallelism else WorkClass.REGROUP


class SourceFile(NamedTuple):
    """A file of the source in the version that was planned with."""

    uri: str
    pin: Pin


class Piece(NamedTuple):
    """`length` bytes from `start` of source file number `file` (None: of the plan's own `literals`).

    `ids` is the number of the operator's table that translates state ids on the way, None where ids stay.
    """

    file: int | None
    start: int
    length: int
    ids: int | None = None


class StateElements(NamedTuple):
    """One state of an operator stream: the length in bytes of each of its elements, in order."""

    name: str
    mode: DistributionMode
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class NewStream:
    """One state stream of the result: its pieces end to end, a header first where the slot has one.

    `key_groups` holds, for keyed slots, the length in bytes of each key group from `first_key_group` on (-1: the
    group is absent), and `tag` is that of its handle. `states` holds, for operator slots, what elements follow.
    A `rekeyed` stream has its header only: what follows is known when every record has been looked at. A stream with a
    `local_name` is one file of the subtask's RocksDB directory, by its name there.
    """

    slot: Slot
    subtask: int
    pieces: tuple[Piece, ...]
    inline: bool
    compressed: bool = False
    tag: int = 0
    first_key_group: int = 0
    key_groups: tuple[int, ...] = ()
    states: tuple[StateElements, ...] = ()
    rekeyed: bool = False
    local_name: str = ""

    @property
    def size(self) -> int:
        """Bytes; of a rewritten stream, those of the source that it is made from."""
        return sum(piece.length for piece in self.pieces)

    @property
    def header_size(self) -> int:
        """What lies before the first key group or element, in bytes."""
        body = sum(length for length in self.key_groups if length > 0)
        return self.size - body - sum(sum(state.lengths) for state in self.states)

    @property
    def rewritten(self) -> bool:
        """Whether state ids are translated, so that the bytes (if compressed, also their number) change."""
        return any(piece.ids is not None for piece in self.pieces)

    @property
    def checked(self) -> bool:
        """Whether its elements are looked into on the way: compressed ones, whose offsets Flink once got wrong."""
        return self.slot is Slot.OPERATOR and self.compressed


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


class NewDatabase(NamedTuple):
    """The RocksDB directory of a new subtask, which is made of all its keyed streams with a local name."""

    subtask: int
    first_key_group: int
    key_groups: int


@dataclass(frozen=True)
class OperatorPlan:
    """What happens to one operator. `old_keyed_bytes` are the keyed bytes per old subtask, to compare evenness.

    `rekeying` is there where key groups are not moved as they are.
    """

    operator_id: str
    label: str
    parallelism: int
    new_parallelism: int
    max_parallelism: int
    new_max_parallelism: int
    work: WorkClass
    states: tuple[str, ...]
    id_tables: tuple[tuple[int, ...], ...]
    streams: tuple[NewStream, ...]
    old_keyed_bytes: tuple[int, ...]
    rekeying: Rekeying | None = None
    databases: tuple[NewDatabase, ...] = ()

    @property
    def new_keyed_bytes(self) -> tuple[int, ...]:
        """Keyed bytes (headers included) that each new subtask gets; of rekeyed state, what is to be expected."""
        per_subtask = [0] * self.new_parallelism
        for stream in self.streams:
            if stream.slot.is_keyed:
                per_subtask[stream.subtask] += stream.size
        for key_group, size in enumerate(self.expected_key_groups):
            per_subtask[subtask_of_key_group(self.new_max_parallelism, self.new_parallelism, key_group)] += size
        return tuple(per_subtask)

    @cached_property
    def expected_key_groups(self) -> tuple[int, ...]:
        """Bytes to expect in each new key group of rekeyed state.

        A hash fixes the remainders of all maxima at once: a record stays in its class modulo their greatest common
        divisor, and within it every new key group is as likely. Where the new maximum divides the old, that is exact.
        """
        if self.rekeying is None:
            return ()
        classes = [0] * math.gcd(self.max_parallelism, self.new_max_parallelism)
        for key_group, size in self.rekeying.key_group_sizes():
            classes[key_group % len(classes)] += size
        each = self.new_max_parallelism // len(classes)
        return tuple(classes[key_group % len(classes)] // each for key_group in range(self.new_max_parallelism))

    def bytes_of(self, *slots: Slot) -> int:
        rekeyed = self.rekeying.bytes if self.rekeying is not None and Slot.KEYED in slots else 0
        return rekeyed + sum(stream.size for stream in self.streams if stream.slot in slots)


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs besides the source itself; `source` is the directory that holds `_metadata`.

    `part_size` and `chunk_size` are the bytes that a task writes and reads at once.
    """

    format: int
    source: str
    target: str
    metadata_sha256: str
    checkpoint_id: int
    files: tuple[SourceFile, ...]
    allow_prefixes: tuple[str, ...]
    literals: bytes
    part_size: int
    chunk_size: int
    operators: tuple[OperatorPlan, ...]
    warnings: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the plan's JSON, in hex."""
        return hashlib.sha256(plan_to_json(self)).hexdigest()

    @property
    def key_hashes(self) -> dict[str, str]:
        """How keys hash, by operator id, where records get new key groups."""
        rekeyed = [(o.operator_id, o.rekeying.key_hash) for o in self.operators if o.rekeying is not None]
        return {operator_id: name for operator_id, name in rekeyed if name is not None}

    @property
    def start(self) -> Start:
        """How the job is started from the result."""
        return start_of(
            self.target,
            [(operator.parallelism, operator.max_parallelism) for operator in self.operators],
            [(operator.new_parallelism, operator.new_max_parallelism) for operator in self.operators],
        )

    @cached_property
    def contents(self) -> SnapshotFiles:
        """What the bytes of the source are read with."""
        return SnapshotFiles(tuple((file.uri, file.pin) for file in self.files))

    def file_name(self, operator: OperatorPlan, stream: NewStream) -> str:
        """Of a new stream in the target; it names the plan, so that files of two plans never mix."""
        name = f"{operator.operator_id}-{stream.slot}-{stream.subtask}-{self.digest[:8]}"
        return f"{name}-{stream.local_name}" if stream.local_name else name

    @property
    def bytes_moved(self) -> int:
        return self.bytes_of(*Slot)

    def bytes_of(self, *slots: Slot) -> int:
        """Bytes of the state in `slots`, of all operators."""
        return sum(operator.bytes_of(*slots) for operator in self.operators)


def plan_to_json(plan: Plan) -> bytes:
    return msgspec.json.encode(plan, order="deterministic")


class _Form(msgspec.Struct):
    """What every plan says of itself, whatever else belonged to plans when it was made."""

    format: int


def plan_from_json(document: bytes, path: str) -> Plan:
    """The mirror of `plan_to_json`; `SnapshotError` if it is not a plan of this version."""
    try:
        form = msgspec.json.decode(document, type=_Form).format
        if form != FORMAT:
            raise SnapshotError(
                "a plan of another version",
                path=path,
                expected=FORMAT,
                found=form,
                advice="have planned and carried out by the same version of Rescale (of both images), or plan again",
            )
        return msgspec.json.decode(document, type=Plan)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise SnapshotError(f"not a plan: {error}", path=path) from None

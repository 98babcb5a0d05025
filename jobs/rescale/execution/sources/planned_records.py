"""Sources of the records that get new key groups in a plan, and their operator's header and hash rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rescale.execution.sources.record_sources import RecordPlace, RecordSource
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.records import MOST_UNKNOWN_STATES
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header, understood
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.flink.serializers.snapshot import UnknownSerializer
from rescale.plan.continuation import ChangedDatabase, ChangedSide
from rescale.plan.new_streams import SourceFiles
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import read_piece
from rescale.plan.pieces import Piece, extent_of
from rescale.plan.plan import Plan
from rescale.plan.rekeying import (
    MaterialisedGroups,
    RecordsOfPlan,
    RekeyedChangelog,
    RekeyedDatabase,
    RekeyedSource,
    Rekeying,
)
from rescale.snapshot.model import ChangeSet, DatabaseFile
from rescale.snapshot.places import ChangelogPlace, ChangePlace, ChangeSide, DatabasePlace, PassedFile, StreamPlace
from rescale.text.errors import IntegrityError


@dataclass(frozen=True)
class RekeyedOperator:
    """An operator, and its records that get new key groups in one `rekeying`.

    `header` is the result's header, None if it is not understood.
    """

    plan: Plan
    operator: OperatorPlan
    rekeying: Rekeying
    header: KeyedHeader | None
    number_of_states: int
    key_groups: NewKeyGroups

    def source(self, records: RecordsOfPlan) -> tuple[RecordSource, Longs]:
        """Return the source of a plan's records, and the new ids of its states."""
        match records:
            case ChangedDatabase() as changed:
                passed = tuple(PassedFile(file.state, file.name, extent_of(file.piece)) for file in changed.passed)
                sides = (self._side(changed.before), self._side(changed.after))
                return self._source(ChangePlace(self.header, changed.key_groups, *sides, passed)), self.new_ids(None)
            case RekeyedDatabase() as database:
                header = read_header(self.plan, database.header)
                place = DatabasePlace(header, database.key_groups, _files(database.files))
                return self._source(place), self.new_ids(database.ids)
            case RekeyedChangelog() as changelog:
                return self._source(self._changelog(changelog)), self.new_ids(changelog.ids)
            case RekeyedSource() as stream:
                return self._stream(stream), self.new_ids(stream.ids)

    def _stream(self, stream: RekeyedSource) -> RecordSource:
        header, framing, compressed = None, Framing.CANONICAL, self.rekeying.compressed
        if stream.timers is not None:
            header, framing, compressed = read_header(self.plan, stream.timers), Framing.RAW, False
        if stream.heap is not None:
            header, framing, compressed = read_header(self.plan, stream.heap), Framing.HEAP, False
        place = StreamPlace(header, stream.file, framing, compressed, stream.first_key_group, stream.groups)
        return self._source(place, None if self.header is None else len(self.new_ids(stream.ids)))

    def _source(self, place: RecordPlace, number_of_states: int | None = None) -> RecordSource:
        return RecordSource(place, self.operator.max_parallelism, number_of_states)

    def _side(self, side: ChangedSide | None) -> ChangeSide[KeyedHeader | None] | None:
        return ChangeSide(self._database(side.files), side.own) if side is not None else None

    def _database(self, database: SourceFiles) -> DatabasePlace[KeyedHeader | None]:
        return DatabasePlace(read_header(self.plan, database.header), database.key_groups, _files(database.files))

    def _changelog(self, changelog: RekeyedChangelog) -> ChangelogPlace[KeyedHeader | None]:
        streams = tuple(self._materialised(stream) for stream in changelog.streams)
        databases = tuple(self._database(database) for database in changelog.databases)
        changes = tuple(ChangeSet(extent_of(change_set.file), change_set.offset) for change_set in changelog.changes)
        header = read_header(self.plan, changelog.header)
        return ChangelogPlace(header, changelog.key_groups, (*streams, *databases), changes, changelog.log_size)

    def _materialised(self, stream: MaterialisedGroups) -> StreamPlace[KeyedHeader | None]:
        header = understood(read_header(self.plan, stream.header))
        framing = Framing.HEAP if stream.heap else Framing.CANONICAL
        return StreamPlace(header, stream.file, framing, header.compressed, stream.first_key_group, stream.groups)

    def new_ids(self, ids: int | None) -> Longs:
        """Return the new state ids by the state id of a source, from the table with the number `ids`."""
        return np.array(range(self.number_of_states) if ids is None else self.operator.id_tables[ids], np.int64)


def _files(files: Sequence[tuple[str, Piece]]) -> tuple[DatabaseFile, ...]:
    return tuple(DatabaseFile(name, extent_of(piece)) for name, piece in files)


def rekeyed_operator(plan: Plan, operator: OperatorPlan, rekeying: Rekeying) -> RekeyedOperator:
    """Read the operator's new header, and prepare the rule by which its keys get key groups."""
    header = read_header(plan, rekeying.header)
    keys = None
    if rekeying.key_hash is not None:
        if header is None:
            raise IntegrityError(
                "the plan has a hash rule for keys with an unknown serializer", operator=operator.label
            )
        keys = composite_keys(header, rekeying.key_hash)
    return RekeyedOperator(
        plan,
        operator,
        rekeying,
        header,
        _count(header),
        NewKeyGroups(keys, operator.max_parallelism, operator.new_max_parallelism),
    )


def number_of_states(plan: Plan, rekeying: Rekeying) -> int:
    """Return the number of states of rekeyed records; a bound if their header is not understood."""
    return _count(read_header(plan, rekeying.header))


def _count(header: KeyedHeader | None) -> int:
    return MOST_UNKNOWN_STATES if header is None else len(header.states)


def read_header(plan: Plan, piece: Piece) -> KeyedHeader | None:
    """Read a keyed header; None if it has an unknown serializer."""
    path, data = read_piece(plan, piece)
    try:
        return read_keyed_header(data, path)
    except UnknownSerializer:
        return None

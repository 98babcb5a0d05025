"""Sources of the records that get new key groups in a plan, and their operator's header and hash rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rescale.execution.sources.change_records import ChangePlace, ChangeSide
from rescale.execution.sources.record_sources import (
    ChangelogPlace,
    DatabasePlace,
    GroupPlace,
    HeapPlace,
    RecordPlace,
    RecordSource,
    TimerPlace,
)
from rescale.execution.sources.spans import group_runs
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.records import MOST_UNKNOWN_STATES
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header, understood
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.flink.serializers.snapshot import UnknownSerializer
from rescale.plan.continuation import ChangedDatabase, ChangedSide
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import read_piece
from rescale.plan.pieces import Piece, extent_of
from rescale.plan.plan import Plan
from rescale.plan.rekeying import RecordsOfPlan, RekeyedChangelog, RekeyedDatabase, RekeyedSource, Rekeying
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ChangeSet
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
                passed = tuple((file.state, extent_of(file.piece)) for file in changed.passed)
                changes = ChangePlace(self._side(changed.before), self._side(changed.after), changed.key_groups, passed)
                return self._source(changes, self.header), self.new_ids(None)
            case RekeyedDatabase() as database:
                place = DatabasePlace(_extents(database.files), database.key_groups)
                return self._source(place, read_header(self.plan, database.header)), self.new_ids(database.ids)
            case RekeyedChangelog() as changelog:
                header = read_header(self.plan, changelog.header)
                return self._source(self._changelog(changelog), header), self.new_ids(changelog.ids)
            case RekeyedSource() as stream:
                return self._stream(stream), self.new_ids(stream.ids)

    def _stream(self, stream: RekeyedSource) -> RecordSource:
        groups = tuple(
            (key_group, Extent(stream.file, *group))
            for key_group, group in enumerate(stream.groups, stream.first_key_group)
            if group is not None
        )
        if stream.timers is not None:
            return self._source(TimerPlace(groups), read_header(self.plan, stream.timers))
        if stream.heap is not None:
            return self._source(HeapPlace(groups), read_header(self.plan, stream.heap))
        number_of_states = None if self.header is None else len(self.new_ids(stream.ids))
        return self._source(GroupPlace(self.rekeying.compressed, groups), None, number_of_states)

    def _source(
        self, place: RecordPlace, header: KeyedHeader | None, number_of_states: int | None = None
    ) -> RecordSource:
        return RecordSource(place, self.operator.max_parallelism, number_of_states, header)

    def _side(self, side: ChangedSide | None) -> ChangeSide | None:
        if side is None:
            return None
        states = tuple(state.name for state in understood(read_header(self.plan, side.files.header)).states)
        return ChangeSide(_extents(side.files.files), states, frozenset(side.own))

    def _changelog(self, changelog: RekeyedChangelog) -> ChangelogPlace:
        base: list[RecordSource] = []
        for stream in changelog.streams:
            groups = (
                (key_group, Extent(stream.file, *group))
                for key_group, group in enumerate(stream.groups, stream.first_key_group)
                if group is not None
            )
            header = understood(read_header(self.plan, stream.header))
            for run in group_runs(groups):
                place = HeapPlace(tuple(run)) if stream.heap else GroupPlace(header.compressed, tuple(run))
                base.append(self._source(place, header, len(header.states)))
        for database in changelog.databases:
            header = understood(read_header(self.plan, database.header))
            base.append(self._source(DatabasePlace(_extents(database.files), database.key_groups), header))
        changes = tuple(ChangeSet(extent_of(change_set.file), change_set.offset) for change_set in changelog.changes)
        return ChangelogPlace(tuple(base), changes, changelog.key_groups, changelog.log_size)

    def new_ids(self, ids: int | None) -> Longs:
        """Return the new state ids by the state id of a source, from the table with the number `ids`."""
        return np.array(range(self.number_of_states) if ids is None else self.operator.id_tables[ids], np.int64)


def _extents(files: Sequence[tuple[str, Piece]]) -> tuple[tuple[str, Extent], ...]:
    return tuple((name, extent_of(piece)) for name, piece in files)


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

"""The records whose new key groups a plan wants: their sources, and what must be known of the operator as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescale.errors import IntegrityError
from rescale.execution.sources.record_sources import (
    ChangelogPlace,
    DatabasePlace,
    GroupPlace,
    HeapPlace,
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
from rescale.planning.values.new_streams import RekeyedHeapGroups
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.piece_bytes import read_piece
from rescale.planning.values.pieces import Piece, extent_of
from rescale.planning.values.plan import Plan
from rescale.planning.values.rekeying import RekeyedChangelog, Rekeying
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ChangeSet


@dataclass(frozen=True)
class PlannedOperator:
    """An operator, and those of its records that get new key groups in one `rekeying`.

    `header` is that of the result, None if it is not understood.
    """

    plan: Plan
    operator: OperatorPlan
    rekeying: Rekeying
    header: KeyedHeader | None
    number_of_states: int
    key_groups: NewKeyGroups

    def source(self, number: int, first: int, last: int) -> tuple[RecordSource, Longs]:
        """Source `number` of the rekeying, its key groups at the places `first` to `last`.

        With it the new ids of its states. Databases and changelogs come first, and are read as a whole.
        """
        rekeying = self.rekeying
        of = self.operator.max_parallelism
        if number < len(rekeying.databases):
            database = rekeying.databases[number]
            files = tuple((name, extent_of(piece)) for name, piece in database.files)
            header = read_header(self.plan, database.header)
            return RecordSource(DatabasePlace(files, database.key_groups), of, None, header), self.new_ids(database.ids)
        if number < len(rekeying.read_whole):
            changelog = rekeying.changelogs[number - len(rekeying.databases)]
            place = self._changelog(changelog)
            header = read_header(self.plan, changelog.header)
            return RecordSource(place, of, None, header), self.new_ids(changelog.ids)
        stream = rekeying.sources[number - len(rekeying.read_whole)]
        groups = tuple(
            (stream.first_key_group + i, Extent(stream.file, *group))
            for i, group in enumerate(stream.groups[first : last + 1], first)
            if group is not None
        )
        ids = self.new_ids(stream.ids)
        if stream.timers is not None:
            return RecordSource(TimerPlace(groups), of, None, read_header(self.plan, stream.timers)), ids
        if stream.heap is not None:
            heap = HeapPlace(groups, whole_entries=isinstance(rekeying.streams[0], RekeyedHeapGroups))
            return RecordSource(heap, of, None, read_header(self.plan, stream.heap)), ids
        number_of_states = None if self.header is None else len(ids)
        return RecordSource(GroupPlace(rekeying.compressed, groups), of, number_of_states, None), ids

    def _changelog(self, changelog: RekeyedChangelog) -> ChangelogPlace:
        of = self.operator.max_parallelism
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
                base.append(RecordSource(place, of, len(header.states), header))
        for database in changelog.databases:
            files = tuple((name, extent_of(piece)) for name, piece in database.files)
            header = understood(read_header(self.plan, database.header))
            base.append(RecordSource(DatabasePlace(files, database.key_groups), of, None, header))
        changes = tuple(ChangeSet(extent_of(one.file), one.offset) for one in changelog.changes)
        return ChangelogPlace(tuple(base), changes, changelog.key_groups, changelog.log_size)

    def new_ids(self, ids: int | None) -> Longs:
        """By state id of a source, whose table of ids has the number `ids`."""
        return np.array(range(self.number_of_states) if ids is None else self.operator.id_tables[ids], np.int64)


def planned_operator(plan: Plan, operator: OperatorPlan, rekeying: Rekeying) -> PlannedOperator:
    header = read_header(plan, rekeying.header)
    keys = None
    if rekeying.key_hash is not None:
        if header is None:
            raise IntegrityError("a hash of keys whose serializer is not known", operator=operator.label)
        keys = composite_keys(header, rekeying.key_hash)
    return PlannedOperator(
        plan,
        operator,
        rekeying,
        header,
        MOST_UNKNOWN_STATES if header is None else len(header.states),
        NewKeyGroups(keys, operator.max_parallelism, operator.new_max_parallelism),
    )


def read_header(plan: Plan, piece: Piece) -> KeyedHeader | None:
    path, data = read_piece(plan, piece)
    try:
        return read_keyed_header(data, path)
    except UnknownSerializer:
        return None

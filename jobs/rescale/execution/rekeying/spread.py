"""The first half of the work: records are read, get their new key groups, and leave as blocks for their writers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rescale.errors import RescaleError, UnsupportedError
from rescale.execution.rekeying.blocks import BlockSorter, write_rows
from rescale.execution.rekeying.key_counter import KeyCounter
from rescale.execution.rekeying.lanes import Lane
from rescale.execution.rekeying.read_units import ReadUnit
from rescale.execution.rekeying.sources import OperatorSource, id_table, operator_source, read_header
from rescale.execution.sources.database_records import DatabaseRecords
from rescale.execution.sources.group_records import GroupRecords
from rescale.execution.sources.timer_records import TimerRecords
from rescale.flink.advice import CANONICAL
from rescale.flink.arrays import Longs
from rescale.flink.keyed.records import RecordReader, Records
from rescale.flink.keyed.timer_reader import TimerReader
from rescale.planning.pieces import extent_of
from rescale.planning.plan import OperatorPlan, Piece, Plan
from rescale.rocksdb.scan import RowReader
from rescale.snapshot.locate import Extent

BATCHES = 8
"""As many as are read, sorted and sent at once."""


class Receipt(NamedTuple):
    """What was read of a unit: bytes by slot, records by state, and how many different keys there were at least."""

    operator: int
    slots: Longs
    sizes: Longs
    records: Longs
    keys: int


@dataclass(frozen=True)
class Spread:
    """Reads units and gives (partition, row) for those who write, and to one who adds up pickled receipts or an error.

    Keys are told apart by their hashes, so there may be more than are counted; those of two units are different ones,
    for a key lies in one key group.
    """

    plan: Plan
    lanes: Sequence[Lane]
    receipts: int
    done: Callable[[int], None]

    def __call__(self, units: Iterable[Sequence[ReadUnit]]) -> Iterator[tuple[int, bytes]]:
        spreaders: dict[int, _OperatorSpread] = {}
        for unit in (unit for some in units for unit in some):
            operator = self.plan.operators[unit.operator]
            try:
                if unit.operator not in spreaders:
                    spreaders = {unit.operator: _OperatorSpread(self.plan, operator, unit.operator, self.lanes)}
                yield from spreaders[unit.operator].rows(unit)
                yield self.receipts, pickle.dumps(spreaders[unit.operator].receipt())
            except RescaleError as error:
                if not error.final:
                    raise
                yield self.receipts, pickle.dumps(error.located(operator=operator.label))
                return
            self.done(unit.size)


class _OperatorSpread:
    """Spreads units of one operator."""

    def __init__(self, plan: Plan, operator: OperatorPlan, number: int, lanes: Sequence[Lane]) -> None:
        self._plan = plan
        self._operator = operator
        self._number = number
        self._source: OperatorSource = operator_source(plan, operator)
        states = self._source.number_of_states
        self._sorter = BlockSorter(operator.new_max_parallelism, states)
        mine = [lane for lane in lanes if lane.operator == number]
        self._partitions = [lane.partition for lane in mine]
        self._borders = np.array([lane.first * states for lane in mine], np.int64)
        self._readers: dict[int | None, RecordReader] = {}
        self._rows: RowReader | None = None
        self._timer_readers: dict[Piece, TimerReader] = {}
        self._reset()

    def rows(self, unit: ReadUnit) -> Iterator[tuple[int, bytes]]:
        table, batches = self._batches(unit)
        for batch, found in enumerate(batches):
            records = replace(found, states=table[found.states])
            new_groups, codes = self._source.key_groups.of(records)
            if codes is not None:
                self._keys.add(codes)
            index, blocks = self._sorter.sort(records, records.states, new_groups)
            self._sizes[index["slot"]] += index["size"]
            self._records += np.bincount(records.states, minlength=len(self._records))
            for section, row in write_rows(self._number, unit.number, batch, index, blocks, self._borders):
                yield self._partitions[section], row

    def _batches(self, unit: ReadUnit) -> tuple[Longs, Iterable[Records]]:
        """The new ids of the states in a source, and its records."""
        rekeying = self._operator.rekeying
        assert rekeying is not None
        if unit.source < len(rekeying.databases):
            database = rekeying.databases[unit.source]
            header = read_header(self._plan, database.header)
            if header is None:
                raise UnsupportedError("a serializer is not known that hides the names of the states", advice=CANONICAL)
            named = [(name, extent_of(piece)) for name, piece in database.files]
            self._rows = self._rows or RowReader(self._operator.max_parallelism, times=BATCHES)
            table = id_table(self._operator, database.ids, self._source.number_of_states)
            return table, DatabaseRecords(self._rows, self._plan.contents, named, header, database.key_groups)
        source = rekeying.sources[unit.source - len(rekeying.databases)]
        groups = [
            (source.first_key_group + i, Extent(source.file, *group))
            for i, group in enumerate(source.groups[unit.first : unit.last + 1], unit.first)
            if group is not None
        ]
        table = id_table(self._operator, source.ids, self._source.number_of_states)
        if source.timers is not None:
            return table, TimerRecords(self._timer_reader(source.timers), self._plan.contents, groups)
        number_of_states = None if self._source.header is None else len(table)
        return table, GroupRecords(
            self._reader(number_of_states), self._plan.contents, groups, compressed=rekeying.compressed
        )

    def _timer_reader(self, piece: Piece) -> TimerReader:
        if piece not in self._timer_readers:
            header = read_header(self._plan, piece)
            assert header is not None
            self._timer_readers = {piece: TimerReader(header, self._operator.max_parallelism, times=BATCHES)}
        return self._timer_readers[piece]

    def _reader(self, number_of_states: int | None) -> RecordReader:
        """The same one for many units, for its buffers' sake."""
        if number_of_states not in self._readers:
            self._readers = {
                number_of_states: RecordReader(self._operator.max_parallelism, number_of_states, times=BATCHES)
            }
        return self._readers[number_of_states]

    def receipt(self) -> Receipt:
        """Of what was read since the last one."""
        slots = np.flatnonzero(self._sizes)
        receipt = Receipt(self._number, slots, self._sizes[slots], self._records, self._keys.count)
        self._reset()
        return receipt

    def _reset(self) -> None:
        self._sizes = np.zeros(self._sorter.slots, np.int64)
        self._records = np.zeros(self._source.number_of_states, np.int64)
        self._keys = KeyCounter()

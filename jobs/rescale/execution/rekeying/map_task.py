"""Map tasks of the shuffle: they read records, compute their new key groups, and send blocks to the reduce tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from rescale.execution.rekeying.block_rows import BlockSorter, write_rows
from rescale.execution.rekeying.read_units import ReadUnit
from rescale.execution.rekeying.totals import SentSizes, pack_sent_sizes
from rescale.execution.sources.planned_records import RekeyedOperator, rekeyed_operator
from rescale.execution.sources.record_sources import SourceReader
from rescale.execution.writers.protocol import WriteRange
from rescale.flink.keyed.header import NO_NEW_ID
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.snapshot.read_counter import counting_read_bytes
from rescale.text.errors import RescaleError

BATCH_COUNT = 8
"""Size of the batches that a map task reads, sorts and sends, as a multiple of the usual size of a batch."""


@dataclass(frozen=True)
class MapTask:
    """Reads units, and yields (partition, row) pairs for the shuffle.

    The rows of a partition that is written consist of blocks. A row of `totals_partition` has the sizes of all blocks
    that this task has sent for an operator, or the error that ended the task. `reads_whole_entries` is
    `KeyedWriter.reads_whole_entries`. `report_bytes` is called with the number of bytes read since its last call.
    """

    plan: Plan
    rekeying_by_operator: Mapping[int, Rekeying]
    ranges: Sequence[WriteRange]
    totals_partition: int
    reads_whole_entries: bool
    report_bytes: Callable[[int], None]

    def __call__(self, units: Iterable[Sequence[ReadUnit]]) -> Iterator[tuple[int, bytes]]:
        task_units = (unit for run in units for unit in run)
        for operator_index, operator_units in groupby(task_units, lambda unit: unit.operator_index):
            operator = self.plan.operators[operator_index]
            try:
                rekeyed_state = rekeyed_operator(self.plan, operator, self.rekeying_by_operator[operator_index])
                ranges = [write_range for write_range in self.ranges if write_range.operator_index == operator_index]
                reader = SourceReader(
                    self.plan.contents, batch_factor=BATCH_COUNT, reads_whole_entries=self.reads_whole_entries
                )
                sorter = _OperatorSorter(rekeyed_state, operator_index, ranges, reader)
                for unit in operator_units:
                    with counting_read_bytes(unit.size, self.report_bytes):
                        yield from sorter.rows(unit)
                yield self.totals_partition, pack_sent_sizes(sorter.sent_sizes())
            except RescaleError as error:
                if not error.is_final:
                    raise
                yield self.totals_partition, pack_sent_sizes(error.located(operator=operator.label))
                return


class _OperatorSorter:
    """Sorts the records of one operator's units into blocks for the write `ranges` of its new streams."""

    def __init__(
        self, planned: RekeyedOperator, operator_index: int, ranges: Sequence[WriteRange], reader: SourceReader
    ) -> None:
        self._planned = planned
        self._operator_index = operator_index
        number_of_states = planned.rekeying.number_of_states
        self._sorter = BlockSorter(planned.operator.new_max_parallelism, number_of_states)
        self._partitions = [write_range.partition for write_range in ranges]
        self._borders = np.array([write_range.first * number_of_states for write_range in ranges], np.int64)
        self._reader = reader
        self._sizes = np.zeros(self._sorter.number_of_cells, np.int64)
        self._age_filter = planned.young_record_filter()

    def rows(self, unit: ReadUnit) -> Iterator[tuple[int, bytes]]:
        source, new_ids = self._planned.source(unit.source)
        drops_states = NO_NEW_ID in new_ids
        for batch_index, batch_records in enumerate(self._reader.batches(source)):
            records = replace(batch_records, state_ids=new_ids[batch_records.state_ids])
            if drops_states:
                records = records.select(records.state_ids != NO_NEW_ID)
            if self._age_filter is not None:
                records = self._age_filter.filter(records)
            new_groups, _ = self._planned.key_groups.assign(records)
            index, blocks = self._sorter.sort(records, records.state_ids, new_groups)
            self._sizes[index["cell"]] += index["size"]
            for section, row in write_rows(
                self._operator_index, unit.unit_index, batch_index, index, blocks, self._borders
            ):
                yield self._partitions[section], row

    def sent_sizes(self) -> SentSizes:
        cells = np.flatnonzero(self._sizes)
        return SentSizes(self._operator_index, cells, self._sizes[cells])

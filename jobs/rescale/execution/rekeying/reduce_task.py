"""Reduce tasks of the shuffle: the task of a partition collects all its blocks and writes its ranges in order."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from rescale.execution.rekeying.block_buffer import BlockBuffer
from rescale.execution.rekeying.key_order import in_key_order
from rescale.execution.rekeying.sorted_blocks import collect_blocks
from rescale.execution.writers.protocol import KeyedWriter, RecordOrder, Result, Work
from rescale.plan.plan import Plan
from rescale.text.errors import RescaleError


@dataclass(frozen=True)
class ReduceTask(Generic[Work, Result]):
    """Writes the ranges of a partition from its rows, and yields the results; a final error is yielded, not raised.

    `packed_work_by_partition` has the pickled work items of each partition: a task unpickles only its own.
    `state_count_by_operator` has the number of states of each operator, by the operator's index in the plan.
    """

    plan: Plan
    writer: KeyedWriter[Work, Result]
    packed_work_by_partition: Mapping[int, bytes]
    state_count_by_operator: Mapping[int, int]

    def __call__(self, partition: int, rows: Iterable[bytes]) -> Iterator[Result | RescaleError]:
        with BlockBuffer() as buffer:
            partition_blocks = collect_blocks(rows, buffer)
            work_items: Sequence[Work] = pickle.loads(self.packed_work_by_partition[partition])
            for work in work_items:
                write_range = work.range
                try:
                    blocks = partition_blocks.of_range(
                        write_range, self.state_count_by_operator[write_range.operator_index]
                    )
                    if self.writer.order is RecordOrder.KEY:
                        blocks = in_key_order(blocks)
                    yield self.writer.write(work, blocks)
                except RescaleError as error:
                    if not error.is_final:
                        raise
                    yield error.located(operator=self.plan.operators[write_range.operator_index].label)
                    return

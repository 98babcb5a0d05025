"""A moving step, on the driver. Running it again resumes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rescale.execution.rekeying.rekeying_run import rekey_streams
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.execution.writers.canonical.converted import convert_databases
from rescale.execution.writers.planned_streams import write_planned_streams
from rescale.execution.writers.protocol import KeyedWriter
from rescale.execution.writers.rocksdb.compacting import compact_databases
from rescale.execution.writers.rocksdb.rows_writer import RowsWriter
from rescale.execution.writers.whole_streams import HeapStreamsWriter, TimersWriter
from rescale.flink.slot import Slot
from rescale.plan.plan import Plan
from rescale.runstate.written_handles import WrittenHandles, begin_moving, write_handles
from rescale.storage.locations import name
from rescale.storage.store import open_store

_WRITERS: tuple[Callable[[Plan], KeyedWriter[Any, Any]], ...] = (
    CanonicalWriter,
    RowsWriter,
    HeapStreamsWriter,
    TimersWriter,
)
"""Writers of streams whose records get new key groups, one for each `RekeyedStream`."""


def move_streams(plan: Plan, step: str, slots: tuple[Slot, ...], tasks: Tasks, says: str) -> WrittenHandles:
    """Move the streams of `slots`; write and return their handles under the name `step`. `says` names the progress."""
    there = {name(entry.uri): entry.size for entry in open_store(plan.target).list(plan.target)}
    before = begin_moving(plan, step, there)
    if before is not None:
        return before
    handles = write_planned_streams(plan, slots, tasks, says, there)
    if Slot.KEYED in slots:
        handles += compact_databases(plan, tasks)
        handles += convert_databases(plan, tasks, there)
    for writer in (make_writer(plan) for make_writer in _WRITERS):
        if writer.stream_type.slot in slots:
            handles += rekey_streams(plan, writer, tasks, there)
    written = WrittenHandles(step, plan.digest, tuple(handles))
    write_handles(plan, written)
    return written

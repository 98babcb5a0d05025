"""A moving step from end to end, on the driver. Running it again resumes."""

from __future__ import annotations

from rescale.execution.rekeying.rekeying_run import rekey_streams
from rescale.execution.tasks import Tasks
from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.execution.writers.canonical.converted import convert_databases
from rescale.execution.writers.heap.heap_streams import HeapStreamsWriter
from rescale.execution.writers.planned_streams import write_planned_streams
from rescale.execution.writers.rocksdb.compacting import compact_databases
from rescale.execution.writers.rocksdb.rows_writer import RowsWriter
from rescale.execution.writers.timers.timers_writer import TimersWriter
from rescale.flink.slot import Slot
from rescale.planning.values.plan import Plan
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.written_handles import WrittenHandles, begin_moving, write_handles


def move_streams(plan: Plan, step: str, slots: tuple[Slot, ...], tasks: Tasks, says: str) -> WrittenHandles:
    """Moves the streams of `slots`, and writes and returns their handles, as those of `step`; `says` is its name."""
    there = {name(entry.uri): entry.size for entry in open_store(plan.target).list(plan.target)}
    before = begin_moving(plan, step, there)
    if before is not None:
        return before
    handles = write_planned_streams(plan, slots, tasks, says, there)
    if Slot.KEYED in slots:
        handles += compact_databases(plan, tasks)
        handles += convert_databases(plan, tasks, there)
        handles += rekey_streams(plan, CanonicalWriter(plan), tasks, there)
        handles += rekey_streams(plan, RowsWriter(plan), tasks, there)
        handles += rekey_streams(plan, HeapStreamsWriter(plan), tasks, there)
    if Slot.RAW_KEYED in slots:
        handles += rekey_streams(plan, TimersWriter(plan), tasks, there)
    written = WrittenHandles(step, plan.digest, tuple(handles))
    write_handles(plan, written)
    return written

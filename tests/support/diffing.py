"""Comparison of results with their sources in this process, and changes of a result's records."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.slot import Slot
from rescale.report.differences import DiffDocument, DiffedState
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from support import snapshots
from support.canonical import Record, read_group, write_group
from support.planting import Result


def diff(a: Snapshot, b: Snapshot, surgery: Surgery = NO_SURGERY) -> DiffDocument:
    return diff_snapshots(a, b, InProcessTasks(random=Random(1)), surgery)


def diff_against_source(result: Result, name: str) -> DiffDocument:
    """Return the differences of the result (B) from its source (A); check that B against A has the same ones."""
    source, target = snapshots.opened(name), result.opened()
    difference, mirrored = diff(source, target), diff(target, source)
    assert [(state.state, state.a, state.b) for state in unequal_states(difference)] == [
        (state.state, state.b, state.a) for state in unequal_states(mirrored)
    ]
    return difference


def unequal_states(difference: DiffDocument) -> list[DiffedState]:
    return [state for operator in difference.operators for state in operator.states if not state.equal]


def only_unequal_state(difference: DiffDocument) -> DiffedState:
    assert not difference.equal
    assert not any(operator.differences for operator in difference.operators)
    (state,) = unequal_states(difference)
    return state


def edit_records(
    result: Result, state: str, change: Callable[[list[Record]], list[Record]], *, everywhere: bool = False
) -> list[Record]:
    """Change the records of a state in the first key group that has any, or in all; return the original records."""
    snapshot = result.opened()
    originals = []
    for place in result.places(Slot.KEYED):
        stream = place.stream
        assert isinstance(stream, KeyedStream)
        assert stream.parsed is not None
        names = [info.name for info in stream.parsed.states]
        max_parallelism = snapshot.operators[place.operator].max_parallelism
        groups = result.groups(place)
        for i, group in enumerate(groups):
            records = [record for _, record in read_group(group, max_parallelism)] if group else []
            chosen = [record for record in records if names[record.state] == state]
            if chosen and (everywhere or not originals):
                others = [record for record in records if record not in chosen]
                changed = sorted([*others, *change(chosen)], key=lambda record: record.state)
                groups[i] = write_group(stream.first_key_group + i, changed, max_parallelism) or None
                originals += chosen
        if originals:
            result.write_groups(place, groups)
    assert originals, f"no record of {state}"
    return originals


def first(change: Callable[[Record], list[Record]]) -> Callable[[list[Record]], list[Record]]:
    return lambda records: [*change(records[0]), *records[1:]]


def with_other_value(record: Record) -> list[Record]:
    return [record._replace(value=record.value[:-1] + bytes([record.value[-1] ^ 1]))]

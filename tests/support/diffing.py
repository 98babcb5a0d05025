"""Two snapshots compared in this process, and records of a result changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from rescale.execution.diff.found import SnapshotDiff
from rescale.execution.diff.snapshots import diff_snapshots
from rescale.planning.plan import Slot
from rescale.planning.snapshot import KeyedStream, Snapshot
from support.canonical import Record, read_group, write_group
from support.planting import Result

_MODULES = ("first_look", "records", "snapshots")


def diff(a: Snapshot, b: Snapshot) -> SnapshotDiff:
    def run_units(_: object, work: Callable[[Any], Any], units: Sequence[tuple[int, Any]], __: object) -> list[Any]:
        return [work(unit) for _, unit in reversed(units)]

    with ExitStack() as patches:
        for module in _MODULES:
            patches.enter_context(patch(f"rescale.execution.diff.{module}.run_units", run_units))
        return diff_snapshots(a, b, None)  # type: ignore[arg-type]


def edit_records(
    result: Result, state: str, change: Callable[[list[Record]], list[Record]], *, everywhere: bool = False
) -> list[Record]:
    """Changes the records of a state in the first key group that has some, or in all; returns those that were there."""
    snapshot = result.opened()
    found = []
    for place in result.places(Slot.KEYED):
        stream = place.stream
        assert isinstance(stream, KeyedStream)
        assert stream.parsed is not None
        names = [info.name for info in stream.parsed.states]
        max_parallelism = snapshot.operators[place.operator].entry.max_parallelism
        groups = result.groups(place)
        for i, group in enumerate(groups):
            records = [record for _, record in read_group(group, max_parallelism)] if group else []
            chosen = [record for record in records if names[record.state] == state]
            if chosen and (everywhere or not found):
                others = [record for record in records if record not in chosen]
                changed = sorted([*others, *change(chosen)], key=lambda record: record.state)
                groups[i] = write_group(stream.first_key_group + i, changed, max_parallelism) or None
                found += chosen
        if found:
            result.write_groups(place, groups)
    assert found, f"no record of {state}"
    return found

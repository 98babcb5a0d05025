"""Table of the state of each subtask, in the savepoint and in the result."""

from __future__ import annotations

from collections import Counter

from tabulate import tabulate

from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.text.units import counted, human_bytes


def before_and_after(before: Snapshot, after: Snapshot) -> str:
    """Return a table of all operators with state, with a row for each old or new subtask."""
    results = {operator.operator_id: operator for operator in after.operators}
    rows = []
    for old in before.operators:
        new = results[old.operator_id]
        if not old.bytes:
            continue
        for subtask in range(max(old.parallelism, new.parallelism)):
            label = old.label if subtask == 0 else ""
            rows.append((label, subtask, _share(old, subtask), _share(new, subtask)))
    return tabulate(rows, headers=("operator", "subtask", "before", "after"), disable_numparse=True)


def _share(operator: Operator, subtask: int) -> str:
    if subtask >= operator.parallelism:
        return "-"
    parts = [_keys(s) for s in (*operator.keyed, *operator.raw_keyed) if s.subtask == subtask]
    parts += [_elements(s) for s in (*operator.operator, *operator.raw_operator) if s.subtask == subtask]
    return "; ".join(parts)


def _keys(stream: KeyedStream) -> str:
    own = stream.key_groups
    return f"key groups {own.first}-{own.last}, {human_bytes(stream.extent.length)}"


def _elements(stream: ElementStream) -> str:
    """Return the number of elements by distribution mode, such as `3 split, 4 union elements`."""
    counts = Counter(state.mode.name.partition("_")[0].lower() for state in stream.states for _ in state.elements)
    if len(counts) == 1:
        ((mode, count),) = counts.items()
        return counted(count, f"{mode} element")
    return ", ".join(f"{count} {mode}" for mode, count in counts.items()) + " elements"

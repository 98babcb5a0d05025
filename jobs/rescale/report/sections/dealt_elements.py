"""Operator state: which elements of which states subtasks hold, before and after they are dealt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rescale.report.detail import Detail
from rescale.report.figures import Spark, Sparks
from rescale.report.page import Block, Figure, Listed, Section, table
from rescale.report.units import counted, human_bytes

_BARS = 48

_MODES = {
    "SPLIT_DISTRIBUTE": ("split", "split: each element goes to one subtask, dealt in turn"),
    "UNION": ("union", "union: each element is stored once, and at restore every subtask gets all of them"),
    "BROADCAST": ("broadcast", "broadcast: every subtask gets a copy"),
}


def operator_state(operators: Sequence[dict[str, Any]], detail: Detail) -> list[Block]:
    """Of a plan's or an inspection's operators: states with most bytes first."""
    states = sorted(
        ((one["label"], state) for one in operators for state in one["elements"] if state["elements"]),
        key=lambda one: -one[1]["bytes"],
    )
    if not states:
        return []
    shown = states[: detail.rows]
    sparks = Sparks(tuple(spark(*_row(label, state)) for label, state in shown))
    planned = "new_per_subtask" in states[0][1]
    headers = ("operator", "state", "mode", "elements", "bytes", "a subtask holds", *(["then"] if planned else []))
    rows = [
        (
            label,
            state["state"],
            _mode(state),
            f"{state['elements']:,}",
            human_bytes(state["bytes"]),
            range_words(state["per_subtask"]),
            *([range_words(state["new_per_subtask"])] if planned else []),
        )
        for label, state in shown
    ]
    cut = f" The {len(shown)} largest of {len(states)} states." if len(states) > len(shown) else ""
    what = "before → after" if planned else "now"
    figure = Figure(
        "Elements by subtask", f"How many elements each subtask holds, {what}.{cut}", sparks, table(headers, rows)
    )
    meanings = tuple(words for mode, (_, words) in _MODES.items() if any(state["mode"] == mode for _, state in states))
    return [Section("Operator state", (figure, Listed("", meanings)))]


def _row(label: str, state: dict[str, Any]) -> tuple[str, list[int], list[int] | None, str]:
    after = state.get("new_per_subtask")
    held = " → ".join(range_words(numbers) for numbers in (state["per_subtask"], after) if numbers)
    words = f"{counted(state['elements'], 'element')}, {human_bytes(state['bytes'])}; {held} a subtask"
    return f"{label}: {state['state']} ({_mode(state)})", state["per_subtask"], after, words


def _mode(state: dict[str, Any]) -> str:
    return f"{'raw ' if state['raw'] else ''}{_MODES[state['mode']][0]}"


def spark(label: str, before: Sequence[int], after: Sequence[int] | None, words: str) -> Spark:
    """Of many subtasks several share a bar, which is as high as the highest of them."""
    most = max([1, *before, *(after or ())])
    return Spark(label, _heights(before, most), _heights(after or (), most), words)


def _heights(numbers: Sequence[int], most: int) -> tuple[float, ...]:
    bars = min(len(numbers), _BARS)
    cuts = [bar * len(numbers) // bars for bar in range(bars + 1)] if bars else []
    return tuple(max(numbers[first:end]) / most for first, end in pairwise(cuts))


def range_words(numbers: Sequence[int]) -> str:
    """`3`, or `2 to 5` where subtasks differ."""
    least, most = min(numbers, default=0), max(numbers, default=0)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"

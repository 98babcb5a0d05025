"""The section about operator state: the number of elements that each subtask holds, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import UNSET

from rescale.report.detail import DetailLevel
from rescale.report.documents import DealtState, InspectedOperator, PlannedOperator
from rescale.report.figures import Sparkline, Sparks
from rescale.report.page import Block, Bullets, Figure, Section, table
from rescale.text.units import counted, human_bytes

_MOST_BARS = 48

_MODES = {
    "SPLIT_DISTRIBUTE": ("split", "split: each element goes to one subtask, dealt in turn"),
    "UNION": ("union", "union: each element is stored once, and at restore every subtask gets all of them"),
    "BROADCAST": ("broadcast", "broadcast: every subtask gets a copy"),
}


def operator_state_section(
    operators: Sequence[InspectedOperator] | Sequence[PlannedOperator], detail: DetailLevel
) -> list[Block]:
    """Return the section for the operators of a plan or an inspection; the largest states come first."""
    states = sorted(
        ((operator.label, state) for operator in operators for state in operator.elements if state.elements),
        key=lambda row: -row[1].bytes,
    )
    if not states:
        return []
    shown_states = states[: detail.most_rows]
    sparks = Sparks(tuple(sparkline(*_row(label, state)) for label, state in shown_states))
    is_planned = states[0][1].new_per_subtask is not UNSET
    headers = ("operator", "state", "mode", "elements", "bytes", "a subtask holds", *(["then"] if is_planned else []))
    rows = [
        (
            label,
            state.state,
            _mode(state),
            f"{state.elements:,}",
            human_bytes(state.bytes),
            range_text(state.per_subtask),
            *([range_text(state.new_per_subtask or ())] if is_planned else []),
        )
        for label, state in shown_states
    ]
    cut_sentence = (
        f" The {len(shown_states)} largest of {len(states)} states." if len(states) > len(shown_states) else ""
    )
    time_text = "before → after" if is_planned else "now"
    figure = Figure(
        "Elements by subtask",
        f"How many elements each subtask holds, {time_text}.{cut_sentence}",
        sparks,
        table(headers, rows),
    )
    meanings = tuple(meaning for mode, (_, meaning) in _MODES.items() if any(state.mode == mode for _, state in states))
    return [Section("Operator state", (figure, Bullets("", meanings)))]


def _row(label: str, state: DealtState) -> tuple[str, Sequence[int], Sequence[int] | None, str]:
    new_per_subtask = state.new_per_subtask or None
    counts_text = " → ".join(range_text(numbers) for numbers in (state.per_subtask, new_per_subtask) if numbers)
    caption = f"{counted(state.elements, 'element')}, {human_bytes(state.bytes)}; {counts_text} a subtask"
    return f"{label}: {state.state} ({_mode(state)})", state.per_subtask, new_per_subtask, caption


def _mode(state: DealtState) -> str:
    return f"{'raw ' if state.raw else ''}{_MODES[state.mode][0]}"


def sparkline(label: str, before: Sequence[int], after: Sequence[int] | None, caption: str) -> Sparkline:
    """Return small bars for `before` and `after`, which have a number for each subtask.

    If there are many subtasks, several share a bar, which shows the highest number among them.
    """
    highest_number = max([1, *before, *(after or ())])
    return Sparkline(label, _heights(before, highest_number), _heights(after or (), highest_number), caption)


def _heights(numbers: Sequence[int], highest_number: int) -> tuple[float, ...]:
    bar_count = min(len(numbers), _MOST_BARS)
    cuts = [bar * len(numbers) // bar_count for bar in range(bar_count + 1)] if bar_count else []
    return tuple(max(numbers[first:end]) / highest_number for first, end in pairwise(cuts))


def range_text(numbers: Sequence[int]) -> str:
    """Return the range of the numbers as text: `3`, or `2 to 5` if they differ."""
    least, most = min(numbers, default=0), max(numbers, default=0)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"

"""Page about the comparison of two snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.report.differences import DiffDocument, DiffedOperator, DiffedState, ListedDifference
from rescale.report.page import Block, Bullets, Page, paragraph, table
from rescale.report.pages.declared import DECLARED, declared_lines
from rescale.report.shortening import MOST_OPERATORS, MOST_ROWS, lowest, note_on_rest
from rescale.text.units import counted

_LONGEST_KEY = 120
"""Largest number of characters of a key that the text shows; the JSON has more."""


def difference_page(document: DiffDocument) -> Page:
    """Return the page of a comparison: the verdict, a table of states, and a list of differences."""
    states = [(operator, state) for operator in document.operators for state in operator.states]
    verdict = f"{document.verdict}: {_counts_text(document, states)}"
    declared_texts = [f"{DECLARED}: {line}" for line in declared_lines(document.surgery)]
    blocks: list[Block] = [paragraph(f"A: {document.a}", f"B: {document.b}", *declared_texts, verdict)]
    headers = ("operator", "state", "type", "counted", "A", "B", "digest of A", "digest of B", "")
    shown_states = lowest(states, MOST_ROWS, lambda row: row[1].equal)  # differing states come first
    rows = [_row(operator, state) for operator, state in shown_states]
    blocks += [table(headers, rows)] if rows else []
    blocks += note_on_rest(len(states) - len(rows), "more state", "more states", is_in_report=False)
    return Page((*blocks, *_differing_blocks(document)))


def _differing_blocks(document: DiffDocument) -> list[Block]:
    """Return a block for each operator or state that differs, which lists its differences."""
    blocks: list[Block] = []
    for operator in document.operators:
        if operator.differences:
            blocks.append(Bullets(operator.label, _difference_lines(operator.differences)))
        for state in operator.states:
            if not state.equal and (state.differences or not operator.differences):
                blocks.append(Bullets(f"{operator.label}, {state.state}", _state_lines(state)))
    rest_note = note_on_rest(len(blocks) - MOST_OPERATORS, "more difference", "more differences", is_in_report=False)
    return [*blocks[:MOST_OPERATORS], *rest_note]


def _counts_text(document: DiffDocument, states: list[tuple[DiffedOperator, DiffedState]]) -> str:
    if document.equal:
        return f"{counted(len(states), 'state')} compared"
    differing_state_count = sum(not state.equal for _, state in states)
    differing_operator_count = sum(bool(operator.differences) for operator in document.operators)
    operators_text = f", and {counted(differing_operator_count, 'operator')}" if differing_operator_count else ""
    return f"{differing_state_count} of {counted(len(states), 'state')}{operators_text}"


def _row(operator: DiffedOperator, state: DiffedState) -> tuple[str, ...]:
    amount_a, amount_b = state.a, state.b
    digests = [side.digest[:12] if side.count else "" for side in (amount_a, amount_b)]
    equality = "equal" if state.equal else "different"
    counts = f"{amount_a.count:,}", f"{amount_b.count:,}"
    return operator.label, state.state, state.type, state.counted, *counts, *digests, equality


def _state_lines(state: DiffedState) -> tuple[str, ...]:
    lines = [*_difference_lines(state.differences)]
    number_unlisted = state.differing_at_least - len(state.differences)
    if number_unlisted > 0:
        lines.append(
            f"and at least {counted(number_unlisted, 'other difference')}"
            if lines
            else "the differing entries were not searched for"
        )
    if state.remark:
        lines.append(state.remark)
    return tuple(lines)


def _difference_lines(differences: Sequence[ListedDifference]) -> tuple[str, ...]:
    return tuple(map(_difference_text, differences))


def _difference_text(difference: ListedDifference) -> str:
    item_text = ", ".join(f"{name.replace('_', ' ')} {_shortened(value)}" for name, value in difference.item.items())
    sides_text = "; ".join(
        f"{side}: {text}" for side, text in (("A", difference.a), ("B", difference.b)) if text is not None
    )
    return ": ".join(part for part in (difference.found, item_text, sides_text) if part)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"

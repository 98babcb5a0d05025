"""Page about the files in which two checkpoints of a job differ, and about the cost of a live rescale."""

from __future__ import annotations

from rescale.insight.file_changes import FileChanges, OperatorChanges
from rescale.report.page import Block, Bullets, Page, paragraph, table
from rescale.report.shortening import MOST_ROWS, lowest, note_on_rest
from rescale.text.units import counted, duration, human_bytes

_HEADERS = ("operator", "SST files", "shared", "new in B", "gone in B", "read", "changed rows ≤", "moved whole")


def file_changes_page(changes: FileChanges) -> Page:
    """Return the page: the operators, what a round would read, and whether a live rescale pays off."""
    operators_with_state = [operator for operator in changes.operators if operator.bytes or operator.whole]
    shown_operators = lowest(operators_with_state, MOST_ROWS, lambda operator: -operator.read)
    blocks: list[Block] = [
        paragraph(f"A: {changes.a}", f"B: {changes.b}", *_interval_sentence(changes)),
        table(_HEADERS, [_row(operator) for operator in shown_operators]),
        *note_on_rest(
            len(operators_with_state) - len(shown_operators), "more operator", "more operators", is_in_report=False
        ),
    ]
    reasons = [f"{operator.label}: {operator.reason}" for operator in changes.operators if operator.reason]
    blocks += [Bullets("Keyed state that each round moves whole:", tuple(reasons[:MOST_ROWS]))] if reasons else []
    return Page((*blocks, paragraph(*_verdict(changes))))


def _interval_sentence(changes: FileChanges) -> list[str]:
    """Return a sentence on the time and the write rate between both checkpoints; none if the time is unknown."""
    if not changes.seconds or changes.seconds <= 0:
        return []
    rate = changes.total("added") / changes.seconds
    return [f"B was written {duration(changes.seconds)} after A; {human_bytes(rate)}/s of new SST files in between"]


def _row(operator: OperatorChanges) -> tuple[str, ...]:
    sizes = (operator.bytes, operator.shared, operator.added, operator.gone, operator.read)
    return (
        operator.label,
        *(human_bytes(size) for size in sizes),
        f"{operator.entries:,}",
        human_bytes(operator.whole),
    )


def _verdict(changes: FileChanges) -> list[str]:
    bytes_read, bytes_whole = changes.total("read"), changes.total("whole")
    whole_clause = f", and move {human_bytes(bytes_whole)} whole" if bytes_whole else ""
    lines = [
        f"A round from A to B would read {human_bytes(bytes_read)} of {human_bytes(changes.total('bytes'))}"
        f"{whole_clause}, with at most {counted(changes.total('entries'), 'changed row')}. A follower "
        "reads less if it sees the checkpoints in between.",
        f"Estimate, if the parallelism stays: a last round takes {duration(changes.round_seconds)}, a full run "
        f"{duration(changes.run_seconds)}. Each further subtask adds {1000 * changes.seconds_of_subtask:.0f} ms to a "
        "round.",
    ]
    if changes.pays:
        return [*lines, "A live rescale to another max parallelism pays off (rescale follow)."]
    return [*lines, "A live rescale saves little here: rescale the job after it was stopped."]

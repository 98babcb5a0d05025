"""Page about the operators of a snapshot and their counterparts in a job."""

from __future__ import annotations

from collections.abc import Iterator

from rescale.planning.match_document import (
    ChainedOperator,
    ListedOperator,
    MatchDocument,
    MatchedOperator,
    UnsureOperator,
)
from rescale.report.page import Block, Bullets, Line, Page, paragraph
from rescale.text.units import counted


def matched_page(document: MatchDocument) -> Page:
    """Return the page of a match: the verdict, a list for each kind of counterpart, and proposed options."""
    blocks: list[Block] = [
        paragraph(f"snapshot: {document.snapshot}", f"job: {document.job} (a {document.job_is})", _verdict(document))
    ]
    blocks += [Bullets(lead, lines) for lead, lines in _lists(document) if lines]
    blocks += [paragraph(remark) for remark in document.remarks]
    if document.options:
        blocks.append(paragraph("Options for a plan and a run, once you have checked the reasons above:"))
        blocks.append(paragraph(*(option + " \\" for option in document.options[:-1]), document.options[-1]))
    return Page(tuple(blocks))


def _verdict(document: MatchDocument) -> str:
    uncertain_count = len(document.chained) + len(document.unsure) + len(document.only_in_snapshot)
    if uncertain_count:
        return f"{counted(uncertain_count, 'operator')} with state without a certain counterpart"
    renames_clause = f", after {counted(len(document.proposed), 'rename')}" if document.proposed else ""
    return f"every operator with state has its counterpart{renames_clause}"


def _states_text(operator: ListedOperator) -> str:
    text = ", ".join(f"{state.name} ({state.type})" for state in operator.states or ())
    return f": {text}" if text else ""


def _proposed_line(match: MatchedOperator) -> Line:
    return f"{match.label} → {match.new_label}, by its {match.because}"


def _chained_line(match: ChainedOperator) -> Line:
    counterpart = f"{match.new_label} in the chain that begins with {match.chain}"
    return f"{match.label}: {counterpart}, by its {match.because}"


def _unsure_line(operator: UnsureOperator) -> Line:
    return (
        f"{operator.label}{_states_text(operator)}; may be {' or '.join(other.label for other in operator.candidates)}"
    )


def _label_and_states(operator: ListedOperator) -> Line:
    return f"{operator.label}{_states_text(operator)}"


def _same_id(match: MatchedOperator) -> Line:
    return match.label if match.new_label == match.label else f"{match.label}: {match.new_label}"


def _lists(document: MatchDocument) -> Iterator[tuple[str, tuple[Line, ...]]]:
    yield "The same id on both sides:", tuple(map(_same_id, document.same))
    yield "To be renamed:", tuple(map(_proposed_line, document.proposed))
    yield (
        "To be dropped: without state, but with the id that a renamed operator needs",
        tuple(map(_label_and_states, document.in_the_way)),
    )
    yield (
        "Same name, but later in a chain of the job, so its id is unknown:",
        tuple(map(_chained_line, document.chained)),
    )
    yield (
        "Not certain, and not proposed: use --rename OLD=NEW for each counterpart that you know",
        tuple(map(_unsure_line, document.unsure)),
    )
    yield (
        "In the snapshot only, with state: the job starts only after --rename, or --drop, which gives up the state",
        tuple(map(_label_and_states, document.only_in_snapshot)),
    )
    yield "In the job only: these start without state", tuple(map(_label_and_states, document.only_in_job))

"""The output of `match`: the operators of a snapshot and their counterparts in a job, as a document and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from rescale.planning.matching import Counterpart, Match, Matching, StateSignature
from rescale.report.match_document import (
    ChainedOperator,
    ListedOperator,
    MatchDocument,
    MatchedOperator,
    MatchedState,
    UnsureOperator,
)
from rescale.report.page import Block, Bullets, Line, Page, paragraph
from rescale.report.renderers.text import render_text
from rescale.snapshot.reading.given_names import unused_names_note
from rescale.text.units import counted

_NAMELESS = (
    "The snapshot holds no names of operators (Flink 1.x stores none), and a job's plan holds only ids and names: list "
    "operator ids with their names in a file for --uids, or compare with a second snapshot, taken of the changed job, "
    "which also holds the states."
)
_CHAINED = (
    "A job's plan does not contain the ids of operators that are chained after others. If the program gives such an "
    "operator its former uid, there is nothing to do. If it gives another uid, use --rename OLD=UID. If it gives "
    "none, set one."
)


def match_document(
    snapshot: str, job: str, matching: Matching, *, of_plan: bool, unused_names: Sequence[str] = ()
) -> MatchDocument:
    """Return the result of a match as a document.

    `of_plan` is true if the job is a plan from Flink's REST API, and false if it is a second snapshot. `unused_names`
    were given for operators that neither side has.
    """
    nameless = of_plan and not any(operator.name for operator in _old_operators(matching))
    return MatchDocument(
        snapshot,
        job,
        "plan" if of_plan else "snapshot",
        matching.certain,
        tuple(matching.options),
        tuple(map(_match, matching.same)),
        tuple(map(_match, matching.proposed)),
        tuple(map(_operator, matching.in_the_way)),
        tuple(ChainedOperator(**structs.asdict(_match(match)), chain=match.new.chain) for match in matching.chained),
        tuple(
            UnsureOperator(**structs.asdict(_operator(unsure.old)), candidates=tuple(map(_operator, unsure.candidates)))
            for unsure in matching.unsure
        ),
        tuple(map(_operator, matching.only_in_snapshot)),
        tuple(map(_operator, matching.only_in_job)),
        (
            *([_NAMELESS] if nameless else []),
            *([_CHAINED] if matching.chained else []),
            *unused_names_note(unused_names, "the snapshot or the job"),
        ),
    )


def matched_text(document: MatchDocument) -> str:
    return render_text(matched_page(document))


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
    uncertain = len(document.chained) + len(document.unsure) + len(document.only_in_snapshot)
    if uncertain:
        return f"{counted(uncertain, 'operator')} with state without a certain counterpart"
    renamed = f", after {counted(len(document.proposed), 'rename')}" if document.proposed else ""
    return f"every operator with state has its counterpart{renamed}"


def _states(operator: ListedOperator) -> str:
    text = ", ".join(f"{state.name} ({state.type})" for state in operator.states or ())
    return f": {text}" if text else ""


def _proposed(match: MatchedOperator) -> Line:
    return f"{match.label} → {match.new_label}, by its {match.because}"


def _chained(match: ChainedOperator) -> Line:
    counterpart = f"{match.new_label} in the chain that begins with {match.chain}"
    return f"{match.label}: {counterpart}, by its {match.because}"


def _unsure(operator: UnsureOperator) -> Line:
    return f"{operator.label}{_states(operator)}; may be {' or '.join(other.label for other in operator.candidates)}"


def _label_and_states(operator: ListedOperator) -> Line:
    return f"{operator.label}{_states(operator)}"


def _same_id(match: MatchedOperator) -> Line:
    return match.label if match.new_label == match.label else f"{match.label}: {match.new_label}"


def _lists(document: MatchDocument) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Yield the lead and the lines of each list."""
    yield "The same id on both sides:", tuple(map(_same_id, document.same))
    yield "To be renamed:", tuple(map(_proposed, document.proposed))
    yield (
        "To be dropped: without state, but with the id that a renamed operator needs",
        tuple(map(_label_and_states, document.in_the_way)),
    )
    yield (
        "Same name, but later in a chain of the job, so its id is unknown:",
        tuple(map(_chained, document.chained)),
    )
    yield (
        "Not certain, and not proposed: use --rename OLD=NEW for each counterpart that you know",
        tuple(map(_unsure, document.unsure)),
    )
    yield (
        "In the snapshot only, with state: the job starts only after --rename, or --drop, which gives up the state",
        tuple(map(_label_and_states, document.only_in_snapshot)),
    )
    yield "In the job only: these start without state", tuple(map(_label_and_states, document.only_in_job))


def _old_operators(matching: Matching) -> Iterator[Counterpart]:
    for matches in (matching.same, matching.proposed, matching.chained):
        yield from (match.old for match in matches)
    yield from (unsure.old for unsure in matching.unsure)
    yield from matching.only_in_snapshot


def _match(match: Match) -> MatchedOperator:
    return MatchedOperator(
        **structs.asdict(_operator(match.old)),
        new_operator_id=match.new.operator_id,
        new_label=match.new.label,
        because=match.because,
    )


def _operator(counterpart: Counterpart) -> ListedOperator:
    """Return an operator of the document; its `states` are None if nothing is known about them."""
    states = None if counterpart.states is None else _state_types(sorted(counterpart.states))
    return ListedOperator(counterpart.operator_id, counterpart.uid, counterpart.label, states)


def _state_types(states: list[StateSignature]) -> tuple[MatchedState, ...]:
    return tuple(
        MatchedState(*name_and_type) for name_and_type in dict.fromkeys((state.name, state.type) for state in states)
    )

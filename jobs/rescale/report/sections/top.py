"""The first sections of a report: the verdict, the changes, how to start the job, warnings and hints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET

from rescale.insight.insight import Insight
from rescale.plan.proof import Proof
from rescale.report.detail import DetailLevel
from rescale.report.documents import InspectedOperator, Inspection, PlanDocument, PlannedOperator, ReportDocument
from rescale.report.page import (
    Block,
    Bullets,
    Code,
    Command,
    Line,
    RunProgress,
    Section,
    Strong,
    Verdict,
    WarningBlock,
    paragraph,
    table,
)
from rescale.report.pages.declared import declared_lines, exceptions_clause, first_lines
from rescale.report.pages.insights import duration_sentences, hand_picked_sentences, shape_sentences, union_sentences
from rescale.report.pages.inspection import inspected_row
from rescale.report.pages.planned import OPERATOR_HEADERS, operator_row, work_lines
from rescale.report.shortening import state_bytes
from rescale.snapshot.kafka.audit import DISCOVERY
from rescale.text.error_document import ErrorDocument
from rescale.text.names import first_of
from rescale.text.units import arrow, counted, human_bytes, instant_text

_PROOF_CLAUSES = {
    Proof.FILES: "by files or checksums of the store where possible, ",
    Proof.CHANGES: "all that changed since the base; with the base's certificate, ",
}
"""Part of a verdict that says how the result was compared; none for a proof that compares all records."""

_MOST_NAMED = 3
_MOST_SENTENCES = 3


def verdict(document: ReportDocument) -> list[Block]:
    """Return the line about the progress of a run; for a failed run, also the details of its error."""
    error, certificate, plan = document.error, document.certificate, document.plan
    if (snapshot := document.snapshot) is not None:
        operators_text = counted(len(snapshot.operators), "operator")
        return [Verdict(RunProgress.SEEN, f"{snapshot.kind}: {operators_text}, {human_bytes(snapshot.bytes)} of state")]
    if error is not None:
        return [Verdict(RunProgress.REFUSED, error.what), *_error_details(error)]
    if certificate is None:
        size_text = human_bytes(plan.bytes_moved if plan is not None else 0)
        return [Verdict(RunProgress.PLANNED, f"{size_text} to write; nothing is published yet")]
    published_clause = "and the result is published" if document.published else "and nothing is published yet"
    size_text = human_bytes(certificate.bytes)
    method = _PROOF_CLAUSES.get(certificate.proof, "")
    exceptions = exceptions_clause(certificate.surgery)
    sentence = (
        f"{size_text} compared, {method}every part of the source is in the result{exceptions}, {published_clause}"
    )
    return [Verdict(RunProgress.PROVEN, sentence)]


def _error_details(error: ErrorDocument) -> list[Block]:
    """Return the path, operator, state, expected and found values and the advice of an error."""
    value_by_name = {name: getattr(error, name) for name in ("operator", "state", "expected", "found")}
    details: list[Line] = [Code(error.path)] if error.path is not UNSET else []
    details += [f"{name}: {value}" for name, value in value_by_name.items() if value is not UNSET]
    if error.advice is not UNSET:
        details.append((Strong("what to do: "), error.advice))
    return [Bullets("", tuple(details))] if details else []


def changes_section(plan: PlanDocument, detail: DetailLevel) -> list[Block]:
    """Return the section about source and target, new shapes, declared differences, and how to start the job."""
    facts: list[Line] = [
        ("from ", Code(plan.source), f", its _metadata written {instant_text(plan.taken)}"),
        ("to ", Code(plan.target)),
        *_changes(plan.operators),
        *first_lines(declared_lines(plan.surgery), detail.most_rows),
        ("plan ", Code(plan.plan)),
    ]
    start = (paragraph("Afterwards the job starts with"), Command(plan.start)) if plan.start else ()
    return [Section("What changes", (Bullets("", tuple(facts)), *start))]


def _changes(operators: Sequence[PlannedOperator]) -> Iterator[Line]:
    labels_by_change: dict[tuple[str, str], list[str]] = {}
    for operator in operators:
        if operator.is_changed:
            shape = arrow(operator.parallelism, operator.new_parallelism)
            maximum = arrow(operator.max_parallelism, operator.new_max_parallelism)
            labels_by_change.setdefault((shape, maximum), []).append(operator.label)
    for (parallelism, maximum), labels in sorted(labels_by_change.items(), key=lambda item: -len(item[1]))[
        :_MOST_NAMED
    ]:
        yield (first_of(labels, _MOST_NAMED), ": ", Strong(f"parallelism {parallelism}, max parallelism {maximum}"))
    if len(labels_by_change) > _MOST_NAMED:
        yield f"and {counted(len(labels_by_change) - _MOST_NAMED, 'other change')} of shape, below"
    number_unchanged = len(operators) - sum(map(len, labels_by_change.values()))
    if number_unchanged:
        yield f"{counted(number_unchanged, 'operator')} as before"


def things_to_look_at(insight: Insight, warnings: Sequence[str]) -> list[Block]:
    """Return the section with at most three sentences, those with the worst effects in production first."""
    kafka_warnings = [warning for warning in warnings if "[kafka-" in warning]
    sentence_groups: Iterable[Iterable[str]] = (
        hand_picked_sentences(insight),
        (warning for warning in kafka_warnings if DISCOVERY not in warning),
        shape_sentences(insight),
        union_sentences(insight),
        duration_sentences(insight),
        (warning for warning in warnings if warning not in kafka_warnings),
        kafka_warnings,
    )
    first_sentences = list(dict.fromkeys(sentence for group in sentence_groups for sentence in list(group)[:2]))[
        :_MOST_SENTENCES
    ]
    if not first_sentences:
        return []
    title = {1: "One thing to look at", 2: "Two things to look at"}.get(len(first_sentences), "Three things to look at")
    return [Section(title, (Bullets("", tuple(first_sentences)),))]


def planned_operators(plan: PlanDocument, detail: DetailLevel) -> list[Block]:
    """Return the section with the table of a plan's operators, the largest first."""
    operators = sorted(plan.operators, key=state_bytes, reverse=True)
    shown_operators, blocks = operators[: 2 * detail.most_rows], list[Block]()
    blocks.append(table(OPERATOR_HEADERS, map(operator_row, shown_operators)))
    blocks += _remaining_line(operators[len(shown_operators) :], len(shown_operators))
    blocks.append(Bullets("", tuple(work_lines(plan))))
    return [Section("Operators", tuple(block for block in blocks if block != Bullets("", ())))]


def inspected_operators(snapshot: Inspection, detail: DetailLevel) -> list[Block]:
    """Return the section with the table of a snapshot's operators, the largest first."""
    operators = sorted(snapshot.operators, key=state_bytes, reverse=True)
    shown_operators = operators[: 2 * detail.most_rows]
    headers = ("operator", "parallelism", "max parallelism", "key", "keyed", "operator state", "")
    listing = table(headers, map(inspected_row, shown_operators))
    return [Section("Operators", (listing, *_remaining_line(operators[len(shown_operators) :], len(shown_operators))))]


def _remaining_line(
    remaining_operators: Sequence[InspectedOperator | PlannedOperator], number_shown: int
) -> list[Block]:
    if not remaining_operators:
        return []
    size_text = human_bytes(sum(map(state_bytes, remaining_operators)))
    return [
        paragraph(
            f"These are the {number_shown} largest; {counted(len(remaining_operators), 'smaller one')} hold "
            f"{size_text} in total."
        )
    ]


def further_notes(sentences: Sequence[str], warnings: Sequence[str], detail: DetailLevel) -> list[Block]:
    """Return the section with the first warnings and insights (`sentences`), and the number of the others."""
    limit = 3 * detail.most_rows
    blocks: list[Block] = [*map(WarningBlock, warnings[:limit])]
    if sentences:
        blocks.append(Bullets("", tuple(sentences[:limit])))
    number_omitted = max(len(warnings) - limit, 0) + max(len(sentences) - limit, 0)
    if number_omitted:
        blocks.append(paragraph(f"The commands print {counted(number_omitted, 'other sentence')} of this kind."))
    return [Section("Good to know", tuple(blocks))] if blocks else []

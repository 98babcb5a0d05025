"""What somebody sees first: the verdict, what changes, how the job starts, and what is worth a look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rescale.planning.values.proof import Proof
from rescale.report.detail import Detail
from rescale.report.page import (
    Block,
    Code,
    Command,
    Listed,
    Section,
    Standing,
    Strong,
    Verdict,
    Warned,
    Words,
    paragraph,
    table,
)
from rescale.report.pages.declared import declared_lines, except_what_is_otherwise, first_lines
from rescale.report.pages.insights import duration_sentences, hand_picked_sentences, shape_sentences, union_sentences
from rescale.report.pages.planned import OPERATOR_HEADERS, is_changed, operator_row, work_lines
from rescale.report.units import arrow, counted, human_bytes, when
from rescale.snapshot.kafka.audit import DISCOVERY

_MOST_NAMED = 3
_THINGS = 3


def verdict(document: dict[str, Any]) -> list[Block]:
    """How far it has come, in a line."""
    error, certificate, plan = document["error"], document["certificate"], document["plan"]
    if plan is None:
        seen = document["snapshot"]
        operators = counted(len(seen["operators"]), "operator")
        return [Verdict(Standing.SEEN, f"{seen['kind']}: {operators}, {human_bytes(seen['bytes'])} of state")]
    if error is not None:
        return [Verdict(Standing.REFUSED, error["what"]), *_details(error)]
    if certificate is None:
        return [Verdict(Standing.PLANNED, f"{human_bytes(plan['bytes_moved'])} are to be moved; nothing was yet")]
    published = "and the result is published" if document["published"] else "and nothing is published yet"
    size = human_bytes(certificate["bytes"])
    by_files = "by files or checksums of the store where these tell, " if certificate["proof"] == Proof.FILES else ""
    exceptions = except_what_is_otherwise(certificate["surgery"])
    said = f"{size} compared, {by_files}every part of the source is in the result{exceptions}, {published}"
    return [Verdict(Standing.PROVEN, said)]


def _details(error: dict[str, Any]) -> list[Block]:
    """Where it was seen, what was expected and found, and what to do."""
    details: list[Words] = [Code(error["path"])] if "path" in error else []
    details += [f"{name}: {error[name]}" for name in ("operator", "state", "expected", "found") if name in error]
    if "advice" in error:
        details.append((Strong("what to do: "), error["advice"]))
    return [Listed("", tuple(details))] if details else []


def what_changes(plan: dict[str, Any], detail: Detail) -> list[Block]:
    """From where to where, who gets which shape, and how the job starts."""
    facts: list[Words] = [
        ("from ", Code(plan["source"]), f", its _metadata written {when(plan['taken'])}"),
        ("to ", Code(plan["target"])),
        *_changes(plan["operators"]),
        *first_lines(declared_lines(plan["surgery"]), detail.rows),
        ("plan ", Code(plan["plan"])),
    ]
    start = (paragraph("Afterwards the job starts with"), Command(plan["start"]))
    return [Section("What changes", (Listed("", tuple(facts)), *start))]


def _changes(operators: Sequence[dict[str, Any]]) -> Iterator[Words]:
    alike: dict[tuple[str, str], list[str]] = {}
    for operator in filter(is_changed, operators):
        shapes = tuple(arrow(operator[name], operator[f"new_{name}"]) for name in ("parallelism", "max_parallelism"))
        alike.setdefault((shapes[0], shapes[1]), []).append(operator["label"])
    for (parallelism, maximum), labels in sorted(alike.items(), key=lambda one: -len(one[1]))[:_MOST_NAMED]:
        yield (_some(labels), ": ", Strong(f"parallelism {parallelism}, max parallelism {maximum}"))
    if len(alike) > _MOST_NAMED:
        yield f"and {counted(len(alike) - _MOST_NAMED, 'other change')} of shape, below"
    same = len(operators) - sum(map(len, alike.values()))
    if same:
        yield f"{counted(same, 'operator')} as before"


def _some(labels: Sequence[str]) -> str:
    more = len(labels) - _MOST_NAMED
    return ", ".join(labels[:_MOST_NAMED]) + (f" and {counted(more, 'other')}" if more > 0 else "")


def things_to_look_at(insight: dict[str, Any], warnings: Sequence[str]) -> list[Block]:
    """Three, those first that are worst to find out later."""
    kafka = [warning for warning in warnings if "[kafka-" in warning]
    parts: Iterable[Iterable[str]] = (
        hand_picked_sentences(insight),
        (warning for warning in kafka if DISCOVERY not in warning),
        shape_sentences(insight),
        union_sentences(insight),
        duration_sentences(insight),
        (warning for warning in warnings if warning not in kafka),
        kafka,
    )
    first = list(dict.fromkeys(sentence for part in parts for sentence in list(part)[:2]))[:_THINGS]
    if not first:
        return []
    title = {1: "One thing to look at", 2: "Two things to look at"}.get(len(first), "Three things to look at")
    return [Section(title, (Listed("", tuple(first)),))]


def planned_operators(plan: dict[str, Any], detail: Detail) -> list[Block]:
    operators = sorted(plan["operators"], key=lambda one: -(one["keyed_bytes"] + one["operator_bytes"]))
    shown, blocks = operators[: 2 * detail.rows], list[Block]()
    blocks.append(table(OPERATOR_HEADERS, map(operator_row, shown)))
    blocks += _rest(operators[len(shown) :], len(shown))
    blocks.append(Listed("", tuple(work_lines(plan))))
    return [Section("Operators", tuple(block for block in blocks if block != Listed("", ())))]


def seen_operators(snapshot: dict[str, Any], detail: Detail) -> list[Block]:
    operators = sorted(snapshot["operators"], key=lambda one: -(one["keyed_bytes"] + one["operator_bytes"]))
    shown = operators[: 2 * detail.rows]
    headers = ("operator", "parallelism", "max parallelism", "key", "keyed", "operator state", "")
    rows = [
        (
            one["label"],
            one["parallelism"],
            one["max_parallelism"],
            one["key"] or "",
            human_bytes(one["keyed_bytes"]) if one["keyed_bytes"] else "",
            human_bytes(one["operator_bytes"]) if one["operator_bytes"] else "",
            one["remark"],
        )
        for one in shown
    ]
    return [Section("Operators", (table(headers, rows), *_rest(operators[len(shown) :], len(shown))))]


def _rest(left: Sequence[dict[str, Any]], shown: int) -> list[Block]:
    if not left:
        return []
    size = human_bytes(sum(one["keyed_bytes"] + one["operator_bytes"] for one in left))
    return [paragraph(f"These are the {shown} largest; {counted(len(left), 'smaller one')} hold {size} together.")]


def everything_said(sentences: Sequence[str], warnings: Sequence[str], detail: Detail) -> list[Block]:
    most = 3 * detail.rows
    blocks: list[Block] = [*map(Warned, warnings[:most])]
    if sentences:
        blocks.append(Listed("", tuple(sentences[:most])))
    left = max(len(warnings) - most, 0) + max(len(sentences) - most, 0)
    if left:
        blocks.append(paragraph(f"{counted(left, 'other sentence')} of this kind are in what the commands print."))
    return [Section("Good to know", tuple(blocks))] if blocks else []

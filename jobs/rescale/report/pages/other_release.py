"""What a page says of another release of Flink: what it would restore, why not all, and the way on."""

from __future__ import annotations

from typing import Any

from rescale.flink.serializers.release_rules import Reason, Restores
from rescale.names import first_of, quoted
from rescale.report.page import Block, Command, Listed, Section, paragraph
from rescale.report.shortening import cut_lines, cut_table
from rescale.report.units import counted
from rescale.snapshot.prospects import Prospects

_MOST_NAMED = 6

_MEANING = (
    '"yes" is said of the bytes: the job on that Flink must have the operator under the same uid and register the same '
    'states with the same types. SQL jobs may be planned into other operators by every release. "unknown" is what the '
    "bytes do not tell"
)


def prospects_document(found: Prospects) -> dict[str, Any]:
    """All of it as JSON values; what is restored has no reason."""
    return {
        "release": str(found.line),
        "restores": max(
            (one.restores for one in found.operators), key=list(Restores).index, default=Restores.YES
        ).value,
        "reason": _reason(found.reason),
        "operators": [
            {
                "operator_id": one.operator.operator_id,
                "label": one.operator.label,
                "restores": one.restores.value,
                "states": [
                    {"name": state.name, "restores": state.restores.value, "reason": _reason(state.reason)}
                    for state in one.states
                ],
            }
            for one in found.operators
        ],
    }


def _reason(reason: Reason | None) -> dict[str, str] | None:
    return None if reason is None else {"why": reason.why, "flink_class": reason.rule, "way": reason.way}


def prospects_section(document: dict[str, Any], snapshot: str) -> Section:
    """Operators that are restored in one line, the others by state."""
    release, operators = document["release"], document["operators"]
    title = f"What Flink {release} would restore"
    if document["reason"] is not None:
        return Section(
            title, (paragraph(f"nothing: {document['reason']['why']}"), paragraph(document["reason"]["way"]))
        )
    whole = [one for one in operators if one["restores"] == Restores.YES]
    others = [one for one in operators if one["restores"] != Restores.YES]
    blocks: list[Block] = [paragraph(f"{counted(len(whole), 'operator')} of {len(operators)} as they are")]
    told = [restores for restores in Restores if any(_named(one, restores) for one in others)]
    blocks += cut_table(
        ("operator", "restored", *(f"states: {restores.value}" for restores in told)),
        [(one["label"], one["restores"], *(_named(one, restores) for restores in told)) for one in others],
        "more operator",
        "more operators",
    )
    if others:
        blocks += [Listed("Why not:", tuple(cut_lines(_whys(others))))]
        blocks += [Listed("The way on:", tuple(cut_lines(_ways(others)))), *_drop(others, snapshot)]
    return Section(title, (*blocks, paragraph(_MEANING)))


def _named(operator: dict[str, Any], restores: Restores) -> str:
    return first_of([state["name"] for state in operator["states"] if state["restores"] == restores], _MOST_NAMED)


def _whys(operators: list[dict[str, Any]]) -> list[str]:
    """Each reason once, what is not restored first, with Flink's class that it comes from, and the states."""
    whys: dict[tuple[str, str, str], list[str]] = {}
    for one in operators:
        for state in one["states"]:
            if state["reason"] is not None:
                reason = (state["restores"], state["reason"]["why"], state["reason"]["flink_class"])
                whys.setdefault(reason, []).append(f"{one['label']} {state['name']}")
    return [
        f"{restores}: {why} ({flink_class}): {first_of(states, _MOST_NAMED)}"
        for (restores, why, flink_class), states in sorted(whys.items())
    ]


def _ways(operators: list[dict[str, Any]]) -> list[str]:
    """Each way once, with the operators that it is for."""
    ways: dict[str, list[str]] = {}
    for one in operators:
        for state in one["states"]:
            if state["reason"] is not None and one["label"] not in ways.setdefault(state["reason"]["way"], []):
                ways[state["reason"]["way"]].append(one["label"])
    return [f"{way}: {first_of(labels, _MOST_NAMED)}" for way, labels in ways.items()]


def _drop(operators: list[dict[str, Any]], snapshot: str) -> list[Block]:
    """What keeps the state of all operators that are restored, and gives up that of the others."""
    lost = [one["label"] for one in operators if one["restores"] == Restores.NO]
    if not lost:
        return []
    options = " ".join(f"--drop {quoted(label)}" for label in lost)
    return [
        paragraph("or give up what is not restored, and keep all else:"),
        Command(f"rescale run {quoted(snapshot)} --target TARGET {options}"),
    ]

"""Section about another release of Flink: which state it would restore, why not all of it, and what to do."""

from __future__ import annotations

from rescale.flink.serializers.release_rules import Restores
from rescale.report.page import Block, Bullets, Command, Section, paragraph
from rescale.report.shortening import cut_lines, cut_table
from rescale.snapshot.prospects import OperatorProspect, ReleaseProspects
from rescale.text.names import first_of, quoted
from rescale.text.units import counted

_MOST_NAMED = 6

_MEANING_OF_ANSWERS = (
    '"yes" is only about the bytes: the job on that Flink must have the operator under the same uid and register the '
    "same states with the same types. Each release may turn a SQL job into other operators. "
    '"unknown" means that the bytes do not show whether that Flink restores the state'
)


def prospects_section(prospects: ReleaseProspects, snapshot: str) -> Section:
    """Return the section: a line about the operators that are restored, and tables and lists about the others."""
    release, operators = prospects.release, prospects.operators
    title = f"What Flink {release} would restore"
    if prospects.reason is not None:
        return Section(title, (paragraph(f"nothing: {prospects.reason.why}"), paragraph(prospects.reason.way)))
    restored_operators = [operator for operator in operators if operator.restores == Restores.YES]
    other_operators = [operator for operator in operators if operator.restores != Restores.YES]
    blocks: list[Block] = [paragraph(f"{counted(len(restored_operators), 'operator')} of {len(operators)} as they are")]
    answers = [
        restores for restores in Restores if any(_state_names(operator, restores) for operator in other_operators)
    ]
    blocks += cut_table(
        ("operator", "restored", *(f"states: {answer.value}" for answer in answers)),
        [
            (operator.label, operator.restores, *(_state_names(operator, answer) for answer in answers))
            for operator in other_operators
        ],
        "more operator",
        "more operators",
    )
    if other_operators:
        blocks += [Bullets("Why not:", tuple(cut_lines(_reasons(other_operators))))]
        blocks += [
            Bullets("What to do:", tuple(cut_lines(_remedies(other_operators)))),
            *_drop_command(other_operators, snapshot),
        ]
    return Section(title, (*blocks, paragraph(_MEANING_OF_ANSWERS)))


def _state_names(operator: OperatorProspect, restores: Restores) -> str:
    return first_of([state.name for state in operator.states if state.restores == restores], _MOST_NAMED)


def _reasons(operators: list[OperatorProspect]) -> list[str]:
    """Return each reason once, with its Flink class and the states; the reasons for "no" come first."""
    states_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for operator in operators:
        for state in operator.states:
            if state.reason is not None:
                reason = (state.restores, state.reason.why, state.reason.flink_class)
                states_by_reason.setdefault(reason, []).append(f"{operator.label} {state.name}")
    return [
        f"{restores}: {why} ({flink_class}): {first_of(states, _MOST_NAMED)}"
        for (restores, why, flink_class), states in sorted(states_by_reason.items())
    ]


def _remedies(operators: list[OperatorProspect]) -> list[str]:
    """Return each piece of advice once, with the operators to which it applies."""
    labels_by_advice: dict[str, list[str]] = {}
    for operator in operators:
        for state in operator.states:
            if state.reason is not None and operator.label not in labels_by_advice.setdefault(state.reason.way, []):
                labels_by_advice[state.reason.way].append(operator.label)
    return [f"{advice}: {first_of(labels, _MOST_NAMED)}" for advice, labels in labels_by_advice.items()]


def _drop_command(operators: list[OperatorProspect], snapshot: str) -> list[Block]:
    """Return the command that drops every operator with a state that is not restored, and keeps the others."""
    unrestorable_labels = [operator.label for operator in operators if operator.restores == Restores.NO]
    if not unrestorable_labels:
        return []
    options_text = " ".join(f"--drop {quoted(label)}" for label in unrestorable_labels)
    return [
        paragraph("or give up all state of the operators that are not restored, and keep the rest:"),
        Command(f"rescale run {quoted(snapshot)} --target TARGET {options_text}"),
    ]

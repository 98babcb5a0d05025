"""What `match` says: which operators of a snapshot are which of a job's, as JSON values and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rescale.planning.matching import Counterpart, Match, Matching, StateSort
from rescale.report.page import Block, Listed, Page, Words, paragraph
from rescale.report.renderers.text import text_of
from rescale.report.units import counted
from rescale.snapshot.given_names import said_of_unused

_NAMELESS = (
    "The snapshot holds no names of operators (Flink 1.x stores none), and a job's plan tells nothing but ids and "
    "names: list operator ids with their names in a file for --uids, or compare with a second snapshot, of the "
    "changed job, which tells the states, too."
)
_CHAINED = (
    "A job's plan does not tell the ids of operators that are chained behind others: where the program gives such a "
    "one the uid that it had, nothing is to be done; where it gives another, say --rename OLD=UID; where it gives "
    "none, let it give one."
)


def matched(
    snapshot: str, job: str, matching: Matching, *, of_plan: bool, unused_names: Sequence[str] = ()
) -> dict[str, Any]:
    """As JSON values; `of_plan` tells whether the job was a plan of Flink's REST API, not a second snapshot.

    `unused_names` were given for operators that neither side tells of.
    """
    nameless = of_plan and not any(one.name for one in _old(matching))
    return {
        "snapshot": snapshot,
        "job": job,
        "job_is": "plan" if of_plan else "snapshot",
        "certain": matching.certain,
        "options": matching.options,
        "same": [_match(one) for one in matching.same],
        "proposed": [_match(one) for one in matching.proposed],
        "in_the_way": [_operator(one) for one in matching.in_the_way],
        "chained": [{**_match(one), "chain": one.new.chain} for one in matching.chained],
        "unsure": [
            {**_operator(one.old), "candidates": [_operator(other) for other in one.candidates]}
            for one in matching.unsure
        ],
        "only_in_snapshot": [_operator(one) for one in matching.only_in_snapshot],
        "only_in_job": [_operator(one) for one in matching.only_in_job],
        "remarks": [
            *([_NAMELESS] if nameless else []),
            *([_CHAINED] if matching.chained else []),
            *said_of_unused(unused_names, "the snapshot or the job"),
        ],
    }


def matched_text(document: dict[str, Any]) -> str:
    return text_of(matched_page(document))


def matched_page(document: dict[str, Any]) -> Page:
    blocks: list[Block] = [
        paragraph(
            f"snapshot: {document['snapshot']}", f"job: {document['job']} (a {document['job_is']})", _verdict(document)
        )
    ]
    for lead, key, line in _LISTS:
        if document[key]:
            blocks.append(Listed(lead, tuple(line(one) for one in document[key])))
    blocks += [paragraph(remark) for remark in document["remarks"]]
    if document["options"]:
        blocks.append(paragraph("Options for a plan and a run, once you have looked at why:"))
        blocks.append(paragraph(*(option + " \\" for option in document["options"][:-1]), document["options"][-1]))
    return Page(tuple(blocks))


def _verdict(document: dict[str, Any]) -> str:
    open_ones = sum(len(document[key]) for key in ("chained", "unsure", "only_in_snapshot"))
    if open_ones:
        return f"{counted(open_ones, 'operator')} with state without a place that is certain"
    renamed = f", after {counted(len(document['proposed']), 'rename')}" if document["proposed"] else ""
    return f"every operator with state has its place{renamed}"


def _states(one: dict[str, Any]) -> str:
    states = one["states"]
    told = ", ".join(f"{state['name']} ({state['type']})" for state in states or ())
    return f": {told}" if told else ""


def _proposed(one: dict[str, Any]) -> Words:
    return f"{one['label']} → {one['new_label']}, by its {one['because']}"


def _chained(one: dict[str, Any]) -> Words:
    return f"{one['label']}: {one['new_label']} in the chain that begins with {one['chain']}, by its {one['because']}"


def _unsure(one: dict[str, Any]) -> Words:
    return f"{one['label']}{_states(one)}; may be {' or '.join(other['label'] for other in one['candidates'])}"


def _alone(one: dict[str, Any]) -> Words:
    return f"{one['label']}{_states(one)}"


def _as_it_is(one: dict[str, Any]) -> Words:
    other = one["new_label"]
    return one["label"] if other == one["label"] else f"{one['label']}: {other}"


_LISTS = (
    ("The same id on both sides:", "same", _as_it_is),
    ("To be renamed:", "proposed", _proposed),
    ("Without state, but in the way of one that is renamed: to be dropped", "in_the_way", _alone),
    ("By name further on in a chain of the job, whose id is not told:", "chained", _chained),
    ("Not certain, and not proposed: say --rename OLD=NEW for those that you know", "unsure", _unsure),
    (
        "In the snapshot only, with state: the job starts after --rename, or after --drop, which gives it up",
        "only_in_snapshot",
        _alone,
    ),
    ("In the job only: they start without state", "only_in_job", _alone),
)


def _old(matching: Matching) -> Iterator[Counterpart]:
    for matches in (matching.same, matching.proposed, matching.chained):
        yield from (one.old for one in matches)
    yield from (one.old for one in matching.unsure)
    yield from matching.only_in_snapshot


def _match(one: Match) -> dict[str, Any]:
    new = {"new_operator_id": one.new.operator_id, "new_label": one.new.label}
    return {**_operator(one.old), **new, "because": one.because}


def _operator(one: Counterpart) -> dict[str, Any]:
    """`states` is None where nothing is known of them."""
    states = None if one.states is None else sorted(one.states)
    return {"operator_id": one.operator_id, "uid": one.uid, "label": one.label, "states": states and _told(states)}


def _told(states: list[StateSort]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in dict.fromkeys((one.name, one.type) for one in states)]

"""Matches a snapshot's operators with a job's, by states and names, when operator ids have changed.

An id that Flink generates is a hash of the operator's position in the job (`StreamGraphHasherV2`), not of what the
operator does. If an operator is added before it, its id changes, and another operator may get its old id. So operators
are matched in this order:
* by equal ids that come from a uid;
* by other equal ids, if the states do not contradict the match and no other operator of the job has the name;
* by evidence, from the strongest to the weakest, each time only if it points to exactly one operator of the snapshot
  and one of the job;
* by equal ids that are left, if the states do not contradict the match.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import asdict

from rescale.flink.job_graph import GraphVertex
from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.match_document import (
    ChainedOperator,
    ListedOperator,
    MatchDocument,
    MatchedOperator,
    MatchedState,
    UnsureOperator,
)
from rescale.snapshot.model import Operator
from rescale.snapshot.reading.given_names import unused_names_note
from rescale.snapshot.surgery import as_dropped
from rescale.text.names import quoted

_NO_NAMES_NOTE = (
    "The snapshot holds no names of operators (Flink 1.x stores none), and a job's plan holds only ids and names. List "
    "operator ids with their names in a file for --uids, or match with a second snapshot, taken of the changed job, "
    "which also holds the states."
)
_CHAINED_NOTE = (
    "A job's plan does not contain the ids of operators that are chained behind others. If the program gives such an "
    "operator the uid that it had, there is nothing to do. If it gives another uid, use --rename OLD=UID. If it gives "
    "none, set one."
)


class StateSignature(NamedTuple):
    """Properties of a state that tell operators apart; `description` is its entry in the header, b"" if unknown."""

    name: str
    type: str
    description: bytes


@dataclass(frozen=True)
class Counterpart:
    """An operator of the snapshot or of the job.

    `uid` is the uid that the operator id is a hash of, "" if the uid is not known. `states` is None if the states are
    not known, as in a job's plan. `is_stateful` tells whether the operator needs a counterpart. For an operator of a
    job's plan that is not the first of its chain, `chain` is the name of the first, and `operator_id` is "", because a
    plan omits it.
    """

    operator_id: str
    uid: str
    label: str
    name: str
    states: frozenset[StateSignature] | None
    is_stateful: bool = True
    chain: str = ""

    @property
    def option_name(self) -> str:
        """The uid or id that names the operator in options."""
        return self.uid if self.uid and "=" not in self.uid else self.operator_id

    @property
    def plain_name(self) -> str:
        """The name without parts that differ between builds of a job: numbers of SQL operators, hashes of objects."""
        return re.sub(r" ?\[[^]]*\]$|@[0-9a-f]+", "", self.name)

    @property
    def state_types(self) -> frozenset[tuple[str, str]] | None:
        """The names and types of the operator's states; None if they are not known."""
        return None if self.states is None else frozenset((state.name, state.type) for state in self.states)


class _Match(NamedTuple):
    """An operator of the snapshot, and its counterpart in the job. `because` is the evidence; "" for equal ids."""

    old: Counterpart
    new: Counterpart
    because: str


def counterparts_of_snapshot(operators: Iterable[Operator]) -> list[Counterpart]:
    return [
        Counterpart(
            operator.operator_id,
            operator.entry.uid or _uid_or_empty(operator.label, operator.operator_id),
            operator.label,
            operator.entry.name or ("" if operator.label == operator.operator_id else operator.label),
            _states(operator),
            is_stateful=bool(as_dropped(operator).states)
            or operator.entry.fully_finished
            or operator.is_partially_finished,
        )
        for operator in operators
    ]


def counterparts_of_graph(vertices: Iterable[GraphVertex], names: Mapping[str, str]) -> list[Counterpart]:
    """Return all operators of a job's plan as counterparts; `names` maps operator ids to the user's names."""
    counterparts = []
    for vertex in vertices:
        given_name = names.get(vertex.operator_id, "")
        label = given_name or (f"{vertex.name} ({vertex.operator_id})" if vertex.name else vertex.operator_id)
        counterparts.append(
            Counterpart(vertex.operator_id, _uid_or_empty(given_name, vertex.operator_id), label, vertex.name, None)
        )
        counterparts += [Counterpart("", "", name, name, None, chain=vertex.name) for name in vertex.chained_names]
    return counterparts


def match(
    snapshot: str,
    job: str,
    old: Sequence[Counterpart],
    new: Sequence[Counterpart],
    *,
    is_of_plan: bool = False,
    unused_names: Sequence[str] = (),
) -> MatchDocument:
    """Match the operators `old` of a snapshot with the operators `new` of a job.

    `is_of_plan` is true if the job is a plan from Flink's REST API, and false if it is a second snapshot.
    `unused_names` are the user's names for operators that neither the snapshot nor the job has.
    """
    unmatched_counterparts, free_counterparts = list(old), list(new)
    matches: list[_Match] = []

    def add_matches(pairs: Iterable[_Pair], because: str) -> None:
        for before, after in pairs:
            matches.append(_Match(before, after, "" if before.operator_id == after.operator_id else because))
            unmatched_counterparts.remove(before)
            free_counterparts.remove(after)

    add_matches(_pairs_with_equal_ids(unmatched_counterparts, free_counterparts, only_sure=True), "")
    for because, key in _EVIDENCE:
        add_matches(_unique_pairs(unmatched_counterparts, free_counterparts, key), because)
    add_matches(_pairs_with_equal_ids(unmatched_counterparts, free_counterparts, only_sure=False), "")
    renamed_matches = [match for match in matches if match.because and match.old.is_stateful]
    proposed_matches = [match for match in renamed_matches if match.new.operator_id]
    chained_matches = [match for match in renamed_matches if not match.new.operator_id]
    operators_in_the_way = _operators_in_the_way(old, matches, proposed_matches)
    unmatched_stateful = [
        (operator, _candidates(operator, free_counterparts))
        for operator in unmatched_counterparts
        if operator.is_stateful
    ]
    possible_counterparts = [candidate for _, candidates in unmatched_stateful for candidate in candidates]
    operators_without_candidates = [operator for operator, candidates in unmatched_stateful if not candidates]
    lacks_names = is_of_plan and not any(operator.name for operator in old)
    return MatchDocument(
        snapshot,
        job,
        "plan" if is_of_plan else "snapshot",
        certain=not (chained_matches or unmatched_stateful),
        options=(
            *(f"--rename {quoted(f'{match.old.option_name}={match.new.option_name}')}" for match in proposed_matches),
            *(f"--drop {quoted(operator.option_name)}" for operator in operators_in_the_way),
        ),
        same=tuple(_matched_operator(match) for match in matches if not match.because),
        proposed=tuple(map(_matched_operator, proposed_matches)),
        in_the_way=tuple(map(_listed_operator, operators_in_the_way)),
        chained=tuple(
            ChainedOperator(**asdict(_matched_operator(match)), chain=match.new.chain) for match in chained_matches
        ),
        unsure=tuple(
            UnsureOperator(**asdict(_listed_operator(operator)), candidates=tuple(map(_listed_operator, candidates)))
            for operator, candidates in unmatched_stateful
            if candidates
        ),
        only_in_snapshot=tuple(map(_listed_operator, operators_without_candidates)),
        only_in_job=tuple(
            _listed_operator(operator)
            for operator in free_counterparts
            if operator.is_stateful and operator not in possible_counterparts
        ),
        remarks=(
            *([_NO_NAMES_NOTE] if lacks_names else []),
            *([_CHAINED_NOTE] if chained_matches else []),
            *unused_names_note(unused_names, "the snapshot or the job"),
        ),
    )


def _listed_operator(counterpart: Counterpart) -> ListedOperator:
    """Return an operator as the document lists it: each name and type of its states once."""
    matched_states = (
        None
        if counterpart.state_types is None
        else tuple(MatchedState(*state) for state in sorted(counterpart.state_types))
    )
    return ListedOperator(counterpart.operator_id, counterpart.uid, counterpart.label, matched_states)


def _matched_operator(match: _Match) -> MatchedOperator:
    return MatchedOperator(
        **asdict(_listed_operator(match.old)),
        new_operator_id=match.new.operator_id,
        new_label=match.new.label,
        because=match.because,
    )


def _uid_or_empty(name: str, operator_id: str) -> str:
    return name if name and operator_id_of_uid(name) == operator_id else ""


def _operators_in_the_way(
    old: Sequence[Counterpart], matches: Sequence[_Match], proposed_matches: list[_Match]
) -> list[Counterpart]:
    """Return the operators with neither state nor counterpart whose ids renamed operators would get.

    If an operator without state has such an id and a counterpart, its match is added to `proposed_matches`, because the
    operator must be renamed, too.
    """
    match_by_old_id = {match.old.operator_id: match for match in matches if match.because and match.new.operator_id}
    stateless = {operator.operator_id: operator for operator in old if not operator.is_stateful}
    dropped_operators = []
    new_ids = [match.new.operator_id for match in proposed_matches]
    for operator_id in new_ids:
        if operator_id in stateless and operator_id in match_by_old_id:
            proposed_matches.append(match_by_old_id[operator_id])
            new_ids.append(match_by_old_id[operator_id].new.operator_id)
        elif operator_id in stateless:
            dropped_operators.append(stateless[operator_id])
    return dropped_operators


def _states(operator: Operator) -> frozenset[StateSignature]:
    keyed_signatures = {StateSignature(state.name, state.state_type, state.raw) for state in operator.keyed_states}
    element_signatures = set()
    for stream in (*operator.element_streams, *operator.raw_element_streams):
        header = stream.parsed
        description_by_name = {s.name: s.raw for s in header.states} if header else {}
        element_signatures |= {
            StateSignature(state.name, state.mode.name, description_by_name.get(state.name, b""))
            for state in stream.states
        }
    other_signatures = {StateSignature(state.name, state.type, b"") for state in as_dropped(operator).states}
    known_states = {(state.name, state.type) for state in keyed_signatures | element_signatures}
    return frozenset(
        keyed_signatures
        | element_signatures
        | {state for state in other_signatures if (state.name, state.type.removeprefix("raw ")) not in known_states}
    )


_Pair = tuple[Counterpart, Counterpart]
_MatchKey = Callable[[Counterpart], Hashable]
"""Function that returns a property which an operator and its counterpart must share; None if the operator lacks it."""

_EVIDENCE: tuple[tuple[str, _MatchKey], ...] = (
    ("name, and its states with their serializers", lambda op: (op.name, op.states) if op.name and op.states else None),
    ("states with their serializers", lambda op: op.states or None),
    (
        "name, and its states' names and types",
        lambda op: (op.name, op.state_types) if op.name and op.state_types else None,
    ),
    ("states' names and types", lambda op: op.state_types or None),
    ("name", lambda op: op.name or None),
    ("name without its number", lambda op: op.plain_name or None),
)
"""Properties that are evidence for a match, the strongest first; a report shows their texts after "by its"."""


def _pairs_with_equal_ids(old: Sequence[Counterpart], new: Sequence[Counterpart], *, only_sure: bool) -> list[_Pair]:
    """Return the pairs with equal ids, if the id comes from a uid or the states do not contradict each other.

    With `only_sure`, pairs without a uid must also agree on whether they have states, and no other operator of the job
    may have the old operator's name.
    """
    new_operator_by_id = {operator.operator_id: operator for operator in new if operator.operator_id}
    names = {operator.name for operator in new}

    def may_match(before: Counterpart, after: Counterpart) -> bool:
        if _states_contradict(before, after):
            return False
        agree_on_having_states = after.states is None or bool(after.states) == bool(before.states)
        return not only_sure or (
            agree_on_having_states and (after.name in ("", before.name) or before.name not in names)
        )

    pairs = [
        (before, new_operator_by_id[before.operator_id]) for before in old if before.operator_id in new_operator_by_id
    ]
    return [(before, after) for before, after in pairs if before.uid or may_match(before, after)]


def _states_contradict(before: Counterpart, after: Counterpart) -> bool:
    """Return whether both have states, but share none of them, or give a state of the same name different types."""
    if not before.state_types or not after.state_types:
        return False
    type_by_name = dict(before.state_types)
    return not before.state_types & after.state_types or any(
        type_by_name.get(name, state_type) != state_type for name, state_type in after.state_types
    )


def _unique_pairs(old: Sequence[Counterpart], new: Sequence[Counterpart], key: _MatchKey) -> list[_Pair]:
    """Return the pairs of an old and a new operator that alone share a value of `key`, unless states contradict."""
    operators_by_evidence: dict[Hashable, tuple[list[Counterpart], list[Counterpart]]] = defaultdict(lambda: ([], []))
    for index, operators in enumerate((old, new)):
        for operator in operators:
            if (evidence := key(operator)) is not None:
                operators_by_evidence[evidence][index].append(operator)
    return [
        (old_operators[0], new_operators[0])
        for old_operators, new_operators in operators_by_evidence.values()
        if len(old_operators) == len(new_operators) == 1 and not _states_contradict(old_operators[0], new_operators[0])
    ]


def _candidates(operator: Counterpart, free_counterparts: Sequence[Counterpart]) -> list[Counterpart]:
    """Return the free counterparts that share some evidence with `operator`, unless the states contradict."""
    return [
        other
        for other in free_counterparts
        if not _states_contradict(operator, other)
        and any(key(operator) == key(other) is not None for _, key in _EVIDENCE)
    ]

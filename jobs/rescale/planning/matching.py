"""Which operators of a job are those of a snapshot, where ids have changed: by states, and by names.

An id that Flink has made itself hashes where the operator stands in the job (`StreamGraphHasherV2`), not what it is: it
changes with the operators before it, and another operator may get it. So an operator whose id does not come from a uid
is taken for the one of the same id only if their states do not speak against that, and its name does not stand
elsewhere. The others are matched from the strongest evidence to the weakest, and only where it points to one operator
on either side.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescale.flink.job_graph import GraphVertex
from rescale.flink.operator_id import operator_id_of_uid
from rescale.names import quoted
from rescale.snapshot.model import Operator
from rescale.snapshot.surgery import what_is_lost


class StateSort(NamedTuple):
    """A state as far as it tells operators apart; `described` is what its header says, b"" where that is not known."""

    name: str
    type: str
    described: bytes


@dataclass(frozen=True)
class Counterpart:
    """An operator on one side. `uid` is "" where none is known that its id comes from.

    `states` is None if nothing is known of them, as in a job's plan. `stateful` tells whether it needs a counterpart.
    `chain` is the name of the chain's first operator if it is further on in one of a plan; then its id is not known,
    and "" stands for it.
    """

    operator_id: str
    uid: str
    label: str
    name: str
    states: frozenset[StateSort] | None
    stateful: bool = True
    chain: str = ""

    @property
    def word(self) -> str:
        """What options call it by."""
        return self.uid if self.uid and "=" not in self.uid else self.operator_id

    @property
    def plain_name(self) -> str:
        """Without what may differ between two builds of a job: an SQL operator's number, an object's hash, sources."""
        return re.sub(r" ?\[[^]]*\]$|@[0-9a-f]+", "", self.name)

    @property
    def sorts(self) -> frozenset[tuple[str, str]] | None:
        """Its states by names and types."""
        return None if self.states is None else frozenset((state.name, state.type) for state in self.states)


class Match(NamedTuple):
    """An operator of the snapshot and one of the job, and what speaks for it; "" if it is the same id."""

    old: Counterpart
    new: Counterpart
    because: str


class Unmatched(NamedTuple):
    """An operator of the snapshot whose counterpart is not certain: those that it may be."""

    old: Counterpart
    candidates: tuple[Counterpart, ...]


@dataclass(frozen=True)
class Matching:
    """`same` have the same id; `proposed` are to be renamed, `chained` too, but to what only the job's author knows.

    `in_the_way` have no state, but the id that a renamed one gets. `unsure` and `only_in_snapshot` are those with state
    that have no counterpart, `only_in_job` are nobody's.
    """

    same: tuple[Match, ...]
    proposed: tuple[Match, ...]
    in_the_way: tuple[Counterpart, ...]
    chained: tuple[Match, ...]
    unsure: tuple[Unmatched, ...]
    only_in_snapshot: tuple[Counterpart, ...]
    only_in_job: tuple[Counterpart, ...]

    @property
    def options(self) -> list[str]:
        """What is proposed as options, each of two words, as a shell takes them."""
        renames = [f"--rename {quoted(f'{one.old.word}={one.new.word}')}" for one in self.proposed]
        return [*renames, *(f"--drop {quoted(one.word)}" for one in self.in_the_way)]

    @property
    def certain(self) -> bool:
        """Whether every operator with state has its place."""
        return not (self.chained or self.unsure or self.only_in_snapshot)


def of_snapshot(operators: Iterable[Operator]) -> list[Counterpart]:
    """All operators of a snapshot."""
    return [
        Counterpart(
            operator.operator_id,
            operator.entry.uid or _uid(operator.label, operator.operator_id),
            operator.label,
            operator.entry.name or ("" if operator.label == operator.operator_id else operator.label),
            _states(operator),
            stateful=bool(what_is_lost(operator).states)
            or operator.entry.fully_finished
            or operator.partially_finished,
        )
        for operator in operators
    ]


def of_graph(vertices: Iterable[GraphVertex], names: Mapping[str, str]) -> list[Counterpart]:
    """All operators of a job's plan; `names` are those that the user gives, by operator id."""
    found = []
    for vertex in vertices:
        known = names.get(vertex.operator_id, "")
        label = known or (f"{vertex.name} ({vertex.operator_id})" if vertex.name else vertex.operator_id)
        found.append(Counterpart(vertex.operator_id, _uid(known, vertex.operator_id), label, vertex.name, None))
        found += [Counterpart("", "", name, name, None, chain=vertex.name) for name in vertex.chained]
    return found


def match(old: Sequence[Counterpart], new: Sequence[Counterpart]) -> Matching:
    """The operators of a snapshot against those of a job."""
    left, free = list(old), list(new)
    found: list[Match] = []

    def take(pairs: Iterable[_Pair], because: str) -> None:
        for one, other in pairs:
            found.append(Match(one, other, "" if one.operator_id == other.operator_id else because))
            left.remove(one)
            free.remove(other)

    take(_same(left, free, sure=True), "")
    for because, key in _EVIDENCE:
        take(_unique(left, free, key), because)
    take(_same(left, free, sure=False), "")
    proposed = [one for one in found if one.because and one.new.operator_id and one.old.stateful]
    in_the_way = _in_the_way(old, found, proposed)
    unsure = [Unmatched(one, tuple(_possible(one, free))) for one in left if one.stateful]
    possible = [other for one in unsure for other in one.candidates]
    return Matching(
        same=tuple(one for one in found if not one.because),
        proposed=tuple(proposed),
        in_the_way=tuple(in_the_way),
        chained=tuple(one for one in found if one.because and not one.new.operator_id and one.old.stateful),
        unsure=tuple(one for one in unsure if one.candidates),
        only_in_snapshot=tuple(one.old for one in unsure if not one.candidates),
        only_in_job=tuple(one for one in free if one.stateful and one not in possible),
    )


def _uid(name: str, operator_id: str) -> str:
    return name if name and operator_id_of_uid(name) == operator_id else ""


def _in_the_way(old: Sequence[Counterpart], found: Sequence[Match], proposed: list[Match]) -> list[Counterpart]:
    """Operators without state whose ids renamed ones get; those that have a counterpart are renamed, too."""
    matched = {one.old.operator_id: one for one in found if one.because and one.new.operator_id}
    stateless = {one.operator_id: one for one in old if not one.stateful}
    dropped = []
    ids = [one.new.operator_id for one in proposed]
    for operator_id in ids:
        if operator_id in stateless and operator_id in matched:
            proposed.append(matched[operator_id])
            ids.append(matched[operator_id].new.operator_id)
        elif operator_id in stateless:
            dropped.append(stateless[operator_id])
    return dropped


def _states(operator: Operator) -> frozenset[StateSort]:
    keyed = {
        StateSort(state.name, state.state_type, state.raw)
        for header in operator.keyed_headers
        if header is not None
        for state in header.states
    }
    elements = set()
    for stream in (*operator.operator, *operator.raw_operator):
        header = stream.parsed
        described = {s.name: s.raw for s in (*header.list_states, *header.broadcast_states)} if header else {}
        elements |= {StateSort(one.name, one.mode.name, described.get(one.name, b"")) for one in stream.states}
    others = {StateSort(one.name, one.type, b"") for one in what_is_lost(operator).states}
    known = {(state.name, state.type) for state in keyed | elements}
    return frozenset(
        keyed | elements | {one for one in others if (one.name, one.type.removeprefix("raw ")) not in known}
    )


_Pair = tuple[Counterpart, Counterpart]
_Key = Callable[[Counterpart], Hashable]
"""Of an operator what another one must have, too; None if that says nothing."""

_EVIDENCE: tuple[tuple[str, _Key], ...] = (
    (
        "name, and states with their serializers",
        lambda one: (one.name, one.states) if one.name and one.states else None,
    ),
    ("states with their serializers", lambda one: one.states or None),
    ("name, and names and types of states", lambda one: (one.name, one.sorts) if one.name and one.sorts else None),
    ("names and types of states", lambda one: one.sorts or None),
    ("name", lambda one: one.name or None),
    ("name, but for its number", lambda one: one.plain_name or None),
)


def _same(old: Sequence[Counterpart], new: Sequence[Counterpart], *, sure: bool) -> list[_Pair]:
    """Those of one id whose states may be one operator's, or whose id comes from a uid.

    If they are to be `sure`, not one side alone has states, and the name does not stand elsewhere.
    """
    by_id = {one.operator_id: one for one in new if one.operator_id}
    names = {one.name for one in new}

    def may_be(one: Counterpart, other: Counterpart) -> bool:
        if _contradict(one, other):
            return False
        alike = other.states is None or bool(other.states) == bool(one.states)
        return not sure or (alike and (other.name in ("", one.name) or one.name not in names))

    pairs = [(one, by_id[one.operator_id]) for one in old if one.operator_id in by_id]
    return [(one, other) for one, other in pairs if one.uid or may_be(one, other)]


def _contradict(one: Counterpart, other: Counterpart) -> bool:
    """Whether both have states, and none that both have, or one of another type."""
    if not one.sorts or not other.sorts:
        return False
    types = dict(one.sorts)
    return not one.sorts & other.sorts or any(types.get(name, kind) != kind for name, kind in other.sorts)


def _unique(old: Sequence[Counterpart], new: Sequence[Counterpart], key: _Key) -> list[_Pair]:
    """Pairs that have a key which nobody else has."""
    keys: dict[Hashable, tuple[list[Counterpart], list[Counterpart]]] = defaultdict(lambda: ([], []))
    for side, candidates in enumerate((old, new)):
        for one in candidates:
            if (has := key(one)) is not None:
                keys[has][side].append(one)
    return [
        (of_old[0], of_new[0])
        for of_old, of_new in keys.values()
        if len(of_old) == len(of_new) == 1 and not _contradict(of_old[0], of_new[0])
    ]


def _possible(one: Counterpart, free: Sequence[Counterpart]) -> list[Counterpart]:
    """Who shares any evidence with it, and is nobody's."""
    return [
        other
        for other in free
        if not _contradict(one, other) and any(key(one) == key(other) is not None for _, key in _EVIDENCE)
    ]

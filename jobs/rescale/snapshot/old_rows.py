"""Leave out old rows of keyed states with a time to live (TTL): rows whose last access is too long ago.

The state itself stays, with its other rows. A run reads all rows of the operator, and rewrites those that stay.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from rescale.flink.keyed.ttl.last_access import age_rules, timed_serializer
from rescale.flink.state_meta_info import StateMetaInfo
from rescale.snapshot.model import Operator
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, UnsupportedError, located
from rescale.text.names import did_you_mean


@dataclass(frozen=True)
class OldRows:
    """A state that loses the rows, or entries of lists, that were last accessed at or before `until`.

    `until` is in milliseconds since 1970. `of_bytes` counts the bytes of all keyed state of the operator, because the
    number of old rows is not known before the rows are read.
    """

    operator_id: str
    label: str
    name: str
    type: str
    until: int
    of_bytes: int


def old_rows(operator: Operator, name: str, until_ms: int) -> OldRows:
    """Return the old rows of a state of the operator; `until_ms` is in milliseconds since 1970.

    Raises `RequestError` if the operator has no such state with a TTL, and `UnsupportedError` if the last access of its
    rows cannot be read.
    """
    states = operator.keyed_states
    named_states = [state for state in states if state.name == name]
    if not named_states and any(header is None for header in operator.keyed_headers):
        raise UnsupportedError(
            "an unknown serializer hides the names of the keyed states, so no state's old rows can be left out",
            operator=operator.label,
            state=name,
            advice="let the TTL of the job itself remove old rows",
        )
    names_with_ttl = sorted({state.name for state in states if _has_ttl(state)})
    if not named_states:
        raise RequestError(
            f"no keyed state {name!r} in the operator",
            operator=operator.label,
            expected=f"a state with a TTL: {', '.join(names_with_ttl) or 'there is none'}",
            found=name,
            advice=did_you_mean(name, names_with_ttl),
        )
    with located(operator=operator.label, state=name):
        has_ttl = any(timed_serializer(state) is not None for state in named_states)
    if not has_ttl:
        raise RequestError(
            "the state has no time to live (TTL), so its rows do not say when they were last accessed",
            operator=operator.label,
            state=name,
            expected=f"a state with a TTL: {', '.join(names_with_ttl) or 'the operator has none'}",
            found=f"a state of type {named_states[0].state_type} without a TTL",
            advice=Advice("do not name this state, or drop the whole state (", mention("drop-state", "UID:NAME"), ")"),
        )
    with located(operator=operator.label):
        for header in set(operator.parsed_headers):
            age_rules(header, ((name, until_ms),))
    size = sum(holder.size for holder in operator.managed_keyed)
    return OldRows(operator.operator_id, operator.label, name, named_states[0].state_type, until_ms, size)


def without_old_rows(operator: Operator, dropped_rows: Collection[OldRows]) -> Operator:
    """Return the operator with the cutoffs of the states that lose old rows."""
    return replace(operator, cutoffs=tuple((state.name, state.until) for state in dropped_rows))


def _has_ttl(state: StateMetaInfo) -> bool:
    try:
        return timed_serializer(state) is not None
    except UnsupportedError:  # a list or a map with a serializer that is not Flink's
        return False

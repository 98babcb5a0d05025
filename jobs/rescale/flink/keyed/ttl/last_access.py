"""Finds the times of last access in keyed state with a time to live (TTL), and the rules for leaving out old values.

A value of such a state is `lastAccess:i64 value`, with the time in milliseconds since 1970 (`TtlSerializer`). Each
element of a list has its own time. Each value of a map has a time, too, after its null flag; a null has no time. For
Flink, a value has expired if `lastAccess + ttl <= now` (`TtlUtils.expired`). So if `cutoff` is `now` minus the TTL,
exactly the values with `lastAccess <= cutoff` have expired.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap_entries import EntryKind, entry_serializers
from rescale.flink.keys.java_hash import ERROR_TEXTS, SUBCLASS
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.rows.core import LONG
from rescale.flink.serializers.rows.streaming import TTL, TTL_AWARE
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot
from rescale.flink.serializers.type_tree import TypeTree
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.text.errors import SnapshotError, UnsupportedError, located

Cutoffs = tuple[tuple[str, int], ...]
"""Pairs (name of a state, time in ms since 1970): values last accessed at or before this time are left out."""

TIME_SIZE = 8
"""Size in bytes of a time of last access."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(instant: datetime) -> int:
    """Return an instant in whole milliseconds since 1970, rounded down as by `System.currentTimeMillis`."""
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def format_time(time_ms: int) -> str:
    """Return a time of last access as text, such as `2026-10-01T00:00:00.000Z`; in ms outside the years 1 to 9999."""
    try:
        instant = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms since 1970"
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class AgeRule(NamedTuple):
    """Rule for a state: values last accessed at or before `cutoff` (ms since 1970) are left out.

    For a list, `element_tree` is the type of an element after its time; for other kinds it is None.
    """

    state_id: int
    state_name: str
    kind: EntryKind
    cutoff: int
    element_tree: TypeTree | None


def timed_serializer(state: StateMetaInfo) -> tuple[EntryKind, SerializerSnapshot] | None:
    """Return the kind of the state's values, and the serializer of what follows the time; None if the state has no TTL.

    Raises `UnsupportedError` for a list or a map whose serializer is not Flink's own.
    """
    value_serializer = state.serializer(SerializerKey.VALUE)
    if state.kind is not StateKind.KEY_VALUE or value_serializer is None:
        return None
    kind, serializers = entry_serializers(state, value_serializer)
    serializer = serializers[-1]
    while serializer.class_name == TTL_AWARE.snapshot and len(serializer.nested) == 1:
        (serializer,) = serializer.nested
    if serializer.class_name == TTL.snapshot and serializer.values(UNKNOWN):
        return kind, serializer  # the serializer of the value after the time is unknown
    classes_before_value = [nested.class_name for nested in serializer.nested[:-1]]
    if serializer.class_name != TTL.snapshot or classes_before_value != [LONG.snapshot]:
        return None
    return kind, serializer.nested[-1]


def age_rules(header: KeyedHeader, cutoffs: Cutoffs) -> tuple[AgeRule, ...]:
    """Return the rules for the states of a header that have a cutoff.

    Raises `UnsupportedError` if the end of a list's elements is unknown, and `SnapshotError` for a state without TTL;
    both name the state.
    """
    cutoff_by_state = dict(cutoffs)
    rules = []
    for state_id, state in enumerate(header.states):
        if state.name in cutoff_by_state:
            with located(state=state.name):
                rules.append(_rule(state_id, state, cutoff_by_state[state.name]))
    return tuple(rules)


def _rule(state_id: int, state: StateMetaInfo, cutoff: int) -> AgeRule:
    kind_and_serializer = timed_serializer(state)
    if kind_and_serializer is None:
        raise SnapshotError("the state has no time to live, so its values have no time of last access")
    kind, serializer = kind_and_serializer
    element_tree = compile_program(serializer).tree if kind is EntryKind.LIST else None
    return AgeRule(state_id, state.name, kind, cutoff, element_tree)


def unreadable_time_error(state_name: str, error_code: int | None = None) -> SnapshotError | UnsupportedError:
    """Return the error for a value of the state `state_name` without a readable time.

    `error_code` is the error code for a list whose elements cannot be read (`java_hash.ERROR_TEXTS`).
    """
    if error_code == SUBCLASS:
        return UnsupportedError(
            f"an element of a list cannot be delimited: it contains {ERROR_TEXTS[error_code]}", state=state_name
        )
    return SnapshotError("a value of this state has no time of last access where Flink writes it", state=state_name)

"""Serializers of the namespaces of states, including timers."""

from __future__ import annotations

from rescale.flink.serializers.rows.streaming import TIMER
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.text.errors import SnapshotError, UnsupportedError


def namespace_serializer(state: StateMetaInfo) -> SerializerSnapshot:
    """Return the namespace serializer of a state or of timers.

    Raises `UnsupportedError` for other priority queues, and `SnapshotError` if the serializer is missing.
    """
    if state.kind is not StateKind.PRIORITY_QUEUE:
        return serializer_of(state, SerializerKey.NAMESPACE)
    element_serializer = serializer_of(state, SerializerKey.VALUE)
    if element_serializer.values(UNKNOWN):
        return element_serializer  # the serializer of timers is unknown, and so is its namespace serializer
    if element_serializer.class_name != TIMER.snapshot:
        raise UnsupportedError(
            "cannot find the keys in the elements of a priority queue that is no queue of timers",
            state=state.name,
            expected=TIMER.snapshot,
            found=element_serializer.class_name,
            advice="keep the max parallelism",
        )
    if len(element_serializer.nested) != 2:
        raise SnapshotError(
            "the serializer of timers does not contain the serializers of keys and namespaces",
            state=state.name,
            expected="2 nested serializers",
            found=f"{len(element_serializer.nested)}",
        )
    return element_serializer.nested[1]


def is_timer_queue(state: StateMetaInfo) -> bool:
    """Whether the state is a queue of timers whose serializer contains the serializers of keys and namespaces."""
    serializer = state.serializer(SerializerKey.VALUE)
    is_timer = serializer is not None and serializer.class_name == TIMER.snapshot and len(serializer.nested) == 2
    return state.kind is StateKind.PRIORITY_QUEUE and is_timer


def serializer_of(state: StateMetaInfo, key: SerializerKey) -> SerializerSnapshot:
    """Return the serializer that a state has for the purpose `key`. Raises `SnapshotError` if there is none."""
    serializer = state.serializer(key)
    if serializer is None:
        raise SnapshotError("a state lacks a serializer", state=state.name, expected=key)
    return serializer

"""With which serializer the namespaces of a state are written, those of timers included."""

from __future__ import annotations

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo

TIMER_SNAPSHOT = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"


def namespace_serializer(state: StateMetaInfo) -> SerializerSnapshot:
    """Of a state, timers included; `UnsupportedError` for a priority queue of something else."""
    if state.kind is not StateKind.PRIORITY_QUEUE:
        return serializer_of(state, SerializerKey.NAMESPACE)
    element = serializer_of(state, SerializerKey.VALUE)
    if element.values(UNKNOWN):
        return element  # it hides that of the namespaces, which is as little known
    if element.class_name != TIMER_SNAPSHOT:
        raise UnsupportedError(
            "where the key lies in the elements of a priority queue is known for timers only",
            state=state.name,
            expected=TIMER_SNAPSHOT,
            found=element.class_name,
            advice="keep the max parallelism",
        )
    if len(element.nested) != 2:
        raise SnapshotError(
            "the serializer of timers has two others, of keys and namespaces",
            state=state.name,
            found=f"{len(element.nested)}",
        )
    return element.nested[1]


def is_of_timers(state: StateMetaInfo) -> bool:
    """Whether it is a priority queue of timers, whose serializer has those of their keys and namespaces."""
    element = state.serializer(SerializerKey.VALUE)
    is_timer = element is not None and element.class_name == TIMER_SNAPSHOT and len(element.nested) == 2
    return state.kind is StateKind.PRIORITY_QUEUE and is_timer


def serializer_of(state: StateMetaInfo, key: SerializerKey) -> SerializerSnapshot:
    """`SnapshotError` if the state lacks it."""
    serializer = state.serializer(key)
    if serializer is None:
        raise SnapshotError("a state lacks a serializer", state=state.name, expected=key)
    return serializer

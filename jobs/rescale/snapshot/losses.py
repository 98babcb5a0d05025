"""What Flink itself has lost or mislaid in a snapshot: nothing brings it back, but it can be said.

A native savepoint of RocksDB leaves out the timers that are kept on the heap: they are in no list of states, and the
raw keyed state that would hold them is only written for checkpoints (`RocksDBKeyedStateBackend`,
`requiresLegacySynchronousTimerSnapshots`). And after a restore in CLAIM mode from an incremental native savepoint, the
handles of the next incremental checkpoints name files of that savepoint as if they lay beside the new `_metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rescale.flink.advice import CANONICAL
from rescale.flink.metadata.handles import IncrementalHandle, RelativeFileStream
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.snapshot.locate import is_checkpoint_directory
from rescale.snapshot.model import Operator, Snapshot
from rescale.storage.locations import join

_WITHOUT_TIMERS = (
    "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot",
    "org.apache.flink.streaming.api.windowing.windows.GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",
)
"""Namespaces of state outside of windows, and of a window that never ends."""

_OF_PATTERNS = ("nfaStateName", "eventQueuesStateName")
"""The states of `CepOperator`."""


def lost_timers(snapshot: Snapshot) -> Iterator[str]:
    """At most one sentence: `WindowOperator`, its kin in SQL and `CepOperator` always have timers."""
    without = [operator.label for operator in snapshot.operators if _lacks_timers(operator)]
    if without:
        yield (
            f"{', '.join(without)}: there is state of windows or patterns, which need timers, and there are no timers. "
            "Flink leaves those that are kept on the heap beside RocksDB out of a native savepoint, and what waits for "
            f"them would wait for ever: while the job still runs, {CANONICAL}"
        )


def _lacks_timers(operator: Operator) -> bool:
    states = [state for header in operator.keyed_headers if header is not None for state in header.states]
    has_some = bool(operator.raw_keyed) or any(state.kind is StateKind.PRIORITY_QUEUE for state in states)
    return bool(operator.databases) and not has_some and any(map(_needs_timers, states))


def _needs_timers(state: StateMetaInfo) -> bool:
    namespace = state.serializer(SerializerKey.NAMESPACE)
    in_windows = namespace is not None and namespace.class_name not in _WITHOUT_TIMERS
    return in_windows or state.name in _OF_PATTERNS


def mislaid_files(snapshot: Snapshot) -> Iterator[str]:
    """At most one sentence."""
    gone = sorted(set(snapshot.missing) & set(_named_beside(snapshot)))
    if gone and is_checkpoint_directory(snapshot.directory):
        yield (
            f"files of RocksDB directories are named as if they lay in {snapshot.directory}, and do not: {len(gone)}, "
            f"such as {gone[0]}. Flink writes such handles after a restore in CLAIM mode from an incremental native "
            "savepoint, and cannot restore them: if that savepoint is still there, copy its files of these names here"
        )


def _named_beside(snapshot: Snapshot) -> Iterator[str]:
    for operator in snapshot.operators:
        for subtask in operator.entry.subtasks:
            handle = subtask.state.managed_keyed if subtask.state else None
            if isinstance(handle, IncrementalHandle):
                for file in handle.shared:
                    if isinstance(file.stream, RelativeFileStream):
                        yield join(snapshot.directory, file.stream.path)

"""Warnings about state that Flink itself lost or mislaid when it wrote a snapshot.

A native savepoint of RocksDB lacks the timers that are kept on the heap. Flink writes these timers as raw keyed state,
and only for checkpoints (`requiresLegacySynchronousTimerSnapshots` of `RocksDBKeyedStateBackend`).

After a restore in CLAIM mode from an incremental native savepoint, the next incremental checkpoints use files of that
savepoint. Their handles name these files as if they lay beside the new `_metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.metadata.handles import IncrementalHandle, RelativeFileStream
from rescale.flink.serializers.rows.streaming import GLOBAL_WINDOW, VOID_NAMESPACE
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.moves import is_checkpoint_directory
from rescale.storage.locations import join

_NAMESPACES_WITHOUT_TIMERS = (VOID_NAMESPACE.snapshot, GLOBAL_WINDOW.snapshot)
"""Namespaces of states that need no timers: those outside of windows, and those of a window that never ends."""

_CEP_STATES = ("nfaStateName", "eventQueuesStateName")
"""Names of the states of `CepOperator`, which needs timers."""


def lost_timer_warnings(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence if operators of windows (`WindowOperator`) or patterns (`CepOperator`) lack their timers."""
    labels = [operator.label for operator in snapshot.operators if _lacks_timers(operator)]
    if labels:
        yield (
            f"{', '.join(labels)}: the state of windows or patterns needs timers, but there are no timers. "
            "A native savepoint lacks timers that are kept on the heap beside RocksDB, and windows that wait for them "
            f"would never fire: while the job still runs, {RESCALE_CANONICAL_SAVEPOINT}"
        )


def _lacks_timers(operator: Operator) -> bool:
    states = operator.keyed_states
    has_timers = bool(operator.raw_keyed) or any(state.kind is StateKind.PRIORITY_QUEUE for state in states)
    return bool(operator.databases) and not has_timers and any(map(_needs_timers, states))


def _needs_timers(state: StateMetaInfo) -> bool:
    serializer = state.serializer(SerializerKey.NAMESPACE)
    is_in_window = serializer is not None and serializer.class_name not in _NAMESPACES_WITHOUT_TIMERS
    return is_in_window or state.name in _CEP_STATES


def mislaid_file_warnings(snapshot: Snapshot) -> Iterator[str]:
    """Yield a warning if relative state handles name files that the snapshot's directory lacks."""
    missing_files = sorted(set(snapshot.missing_files) & set(_files_named_relatively(snapshot)))
    if missing_files and is_checkpoint_directory(snapshot.directory):
        yield (
            f"{len(missing_files)} files of RocksDB directories should be in {snapshot.directory} and are not, such as "
            f"{missing_files[0]}. Flink writes handles of such files after a restore in CLAIM mode from an incremental "
            "native savepoint, and cannot restore them: if that savepoint still exists, copy its files with these "
            "names to this directory"
        )


def _files_named_relatively(snapshot: Snapshot) -> Iterator[str]:
    for operator in snapshot.operators:
        for subtask in operator.entry.subtasks:
            handle = subtask.state.managed_keyed if subtask.state else None
            if isinstance(handle, IncrementalHandle):
                for file in handle.shared:
                    if isinstance(file.stream, RelativeFileStream):
                        yield join(snapshot.directory, file.stream.path)

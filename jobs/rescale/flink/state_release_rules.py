"""Says whether another release of Flink restores state without known types, and state of classes that were removed.

The class that registers an operator state fixes the name of the state, so the name identifies the class. Sources and
sinks store bytes of their connector: Flink passes these bytes on, and the connector reads them.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from rescale.flink.advice import (
    REPLACE_SINK,
    SNAPSHOT_WITHOUT_COMPRESSION,
    TAKE_ALIGNED_SNAPSHOT,
    TAKE_CANONICAL_SAVEPOINT,
)
from rescale.flink.kafka.consumer import OFFSETS_STATE
from rescale.flink.release_line import ReleaseLine
from rescale.flink.serializers.release_rules import Reason, Restores

_CONSUMER_CLASS = "FlinkKafkaConsumer"
_PRODUCER_CLASS = "FlinkKafkaProducer"
_ACKNOWLEDGING_CLASS = "MessageAcknowledgingSourceBase"


class _RemovedClass(NamedTuple):
    """State of a class (`flink_class`) that Flink 1 has and Flink 2 does not have; `description` says what it holds."""

    flink_class: str
    description: str
    advice: str


_REMOVED_CLASS_BY_STATE = {
    OFFSETS_STATE: _RemovedClass(
        _CONSUMER_CLASS,
        "the offsets of a FlinkKafkaConsumer",
        "convert the state to the state of the KafkaSource that replaces the consumer (option kafka-source); or drop "
        "the state, and start the KafkaSource from the committed offsets of the consumer "
        "(OffsetsInitializer.committedOffsets)",
    ),
    **{
        name: _RemovedClass(_PRODUCER_CLASS, "the transactions of a FlinkKafkaProducer", REPLACE_SINK)
        for name in ("next-transactional-id-hint", "next-transactional-id-hint-v2")
    },
    "message-acknowledging-source-state": _RemovedClass(
        _ACKNOWLEDGING_CLASS,
        f"the unacknowledged messages of a {_ACKNOWLEDGING_CLASS}",
        "drop it: the queue sends unacknowledged messages again",
    ),
}

_CLASS_BY_CONNECTOR_STATE = {
    "writer_raw_states": "StatefulSinkWriterStateHandler",
    "streaming_committer_raw_states": "CommitterOperator",
    "bucket-states": "StreamingFileSinkHelper",
    "remaining_compact_commit_raw_state": "CompactCoordinator",
    "remaining_requests_raw_state": "CompactorOperator",
}
"""Names of states whose format belongs to a connector, and the classes of Flink that store them."""

_TRY_CONNECTOR = "use the connector's release for Flink {line} and test the restore; or drop the state"
_TRY_OPERATOR = "use the operator's class for that Flink and test the restore; or drop the state"

_UNTYPED_STATES = {
    "changelog": (
        "ChangelogKeyedStateBackend",
        "a changelog with changes that are not materialised: it is unknown how another release reads the log",
        TAKE_CANONICAL_SAVEPOINT,
    ),
    "raw keyed state": ("StateSnapshotContext", "the operator writes raw state in its own format", _TRY_OPERATOR),
    "raw operator state": ("StateSnapshotContext", "the operator writes raw state in its own format", _TRY_OPERATOR),
    "records in flight": (
        "StreamElementSerializer",
        "the snapshot does not name the types of the records in flight",
        TAKE_ALIGNED_SNAPSHOT,
    ),
    "gone": (
        "KeyedBackendSerializationProxy",
        "the file that names the types of the state is missing",
        "take another snapshot, because Flink cannot restore this one either; or drop the state",
    ),
}
"""Class of Flink, reason and advice for each kind of state without known types."""


def operator_state_reason(state_name: str, writer_major: int, line: ReleaseLine) -> Reason | None:
    """Return why `line` might not restore the operator state with this name; None if no rule depends on the name.

    Flink `writer_major` (1 or 2) wrote the state, and the release `line` is to restore it.
    """
    removed_class = _REMOVED_CLASS_BY_STATE.get(state_name)
    if removed_class is not None and writer_major < line.major:
        why = f"{removed_class.description}, a class that connectors for Flink {line.major} do not contain"
        return Reason(Restores.NO, why, removed_class.flink_class, removed_class.advice)
    connector_class = _CLASS_BY_CONNECTOR_STATE.get(state_name)
    return _connector_reason(connector_class, line) if connector_class is not None else None


_STATE_OF_BUFFERED_ROWS = "inputState"
_STATES_OF_BUFFERING_OVERS = {"accState", _STATE_OF_BUFFERED_ROWS}
_STATES_OF_OTHER_OVERS = {"lastTriggeringTsState", "cleanupTsState", "smallestTSState"}
"""Names of keyed states of OVER aggregates of SQL in Flink 1.

An OVER that buffers rows has all states of `_STATES_OF_BUFFERING_OVERS`. If it is bounded or in processing time, it
also has a state of `_STATES_OF_OTHER_OVERS`.
"""


def keyed_state_reason(state_name: str, state_names: Set[str], writer_major: int, line: ReleaseLine) -> Reason | None:
    """Return why `line` might not restore a keyed state; None if no rule depends on its name.

    `state_names` has all keyed states of the operator; `writer_major` and `line` are as for `operator_state_reason`.
    """
    is_unbounded = state_names >= _STATES_OF_BUFFERING_OVERS and not state_names & _STATES_OF_OTHER_OVERS
    if state_name != _STATE_OF_BUFFERED_ROWS or not is_unbounded or writer_major >= line.major:
        return None
    return Reason(
        Restores.UNKNOWN,
        "if this state belongs to an unbounded OVER in event time, Flink 2 may expect timers for its buffered rows, "
        "and Flink 1 does not set these timers: Flink 2 restores the state without an error, and loses the rows",
        "RowTimeUnboundedPrecedingOverFunctionV2",
        "make Flink 2 use the implementation of Flink 1: table.exec.unbounded-over.version: 1",
    )


def shared_offsets_reason(line: ReleaseLine) -> Reason:
    """Return why `line` misreads, or may misread, compressed operator state whose elements share an offset.

    FLINK-34063 describes this fault.
    """
    why = (
        "its compressed elements share an offset: only Flink 1.18.0 and 1.18.1, which wrote them, read them correctly. "
        "Other releases restore it without an error, and read the first of these elements again and again"
    )
    restores = Restores.UNKNOWN if line == (1, 18) else Restores.NO
    return Reason(restores, why, "CompressibleFSDataInputStream", SNAPSHOT_WITHOUT_COMPRESSION)


def source_reason(line: ReleaseLine) -> Reason:
    """Return why `line` might not restore the splits of a source and the state of its coordinator."""
    return _connector_reason("SourceOperator", line)


def untyped_state_reason(kind: str, line: ReleaseLine) -> Reason:
    """Return why `line` might not restore a kind of state without known types; `kind` is a key of `_UNTYPED_STATES`."""
    flink_class, why, advice = _UNTYPED_STATES[kind]
    return Reason(Restores.UNKNOWN, why, flink_class, advice.replace("that Flink", f"Flink {line}"))


def _connector_reason(flink_class: str, line: ReleaseLine) -> Reason:
    why = (
        "only the connector can read these bytes, and it is unknown whether another release of the connector reads them"
    )
    return Reason(Restores.UNKNOWN, why, flink_class, _TRY_CONNECTOR.format(line=line))

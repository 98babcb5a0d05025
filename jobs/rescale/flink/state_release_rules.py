"""What another release of Flink makes of state that no serializer describes, or whose owner it does not have any more.

Operator state is known by its name, which the class that keeps it has fixed. Sources and sinks that keep their state as
bytes of their own connector are Flink's to hand on and the connector's to read.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from rescale.flink.advice import SAVEPOINT
from rescale.flink.kafka.consumer import OFFSETS_STATE
from rescale.flink.release_line import ReleaseLine
from rescale.flink.serializers.release_rules import Reason, Restores

_CONSUMER = "FlinkKafkaConsumer"
_PRODUCER = "FlinkKafkaProducer"
_ACKNOWLEDGING = "MessageAcknowledgingSourceBase"

_COMMITTED = (
    "stop the job with a savepoint, so that nothing is left to commit, and leave the sink out; the new job begins with "
    "a Sink of its own"
)


class _Gone(NamedTuple):
    """A class of Flink 1 that Flink 2 has none of."""

    rule: str
    what: str
    way: str


_GONE = {
    OFFSETS_STATE: _Gone(
        _CONSUMER,
        "the offsets of a FlinkKafkaConsumer",
        "make it the KafkaSource that comes in its place (--kafka-source OLD=NEW); or leave it out, and start that "
        "from what the consumer has committed (OffsetsInitializer.committedOffsets)",
    ),
    **{
        name: _Gone(_PRODUCER, "the transactions of a FlinkKafkaProducer", _COMMITTED)
        for name in ("next-transactional-id-hint", "next-transactional-id-hint-v2")
    },
    "message-acknowledging-source-state": _Gone(
        _ACKNOWLEDGING,
        f"what a {_ACKNOWLEDGING} has not acknowledged yet",
        "leave it out: the queue sends again what was not acknowledged",
    ),
}

_BYTES_OF_A_CONNECTOR = {
    "writer_raw_states": "StatefulSinkWriterStateHandler",
    "streaming_committer_raw_states": "CommitterOperator",
    "bucket-states": "StreamingFileSinkHelper",
    "remaining_compact_commit_raw_state": "CompactCoordinator",
    "remaining_requests_raw_state": "CompactorOperator",
}

_OF_A_CONNECTOR = "take the connector's release for Flink {line}, and try it; or drop it"

_KINDS = {
    "changelog": (
        "ChangelogKeyedStateBackend",
        "a changelog with changes that are not materialised: what another Flink makes of the log is not known",
        SAVEPOINT,
    ),
    "raw keyed state": (
        "StateSnapshotContext",
        "the operator writes it in a format of its own",
        "try it with the operator's class for that Flink; or drop it",
    ),
    "raw operator state": (
        "StateSnapshotContext",
        "the operator writes it in a format of its own",
        "try it with the operator's class for that Flink; or drop it",
    ),
    "records in flight": (
        "StreamElementSerializer",
        "of which types they are is not in the snapshot",
        "take a savepoint, or a checkpoint that is aligned: nothing is in flight then",
    ),
    "gone": (
        "KeyedBackendSerializationProxy",
        "the file that says of which types it is is gone",
        "take another snapshot, for Flink cannot restore this one either; or drop it",
    ),
}


def by_name(state: str, writer: int, line: ReleaseLine) -> Reason | None:
    """Of an operator state that `writer`, Flink 1 or 2, wrote; None where its name says nothing."""
    gone = _GONE.get(state)
    if gone is not None and writer < line.major:
        why = f"{gone.what}, a class that no connector for Flink {line.major} has"
        return Reason(Restores.NO, why, gone.rule, gone.way)
    connector = _BYTES_OF_A_CONNECTOR.get(state)
    return _of_a_connector(connector, line) if connector is not None else None


_WAITING_ROWS = "inputState"
_OF_EVERY_OVER = {"accState", _WAITING_ROWS}
_OF_OTHER_OVERS = {"lastTriggeringTsState", "cleanupTsState", "smallestTSState"}
"""Keyed states of an OVER in SQL; those that are bounded, or go by processing time, have one of the last."""


def by_name_beside(state: str, beside: Set[str], writer: int, line: ReleaseLine) -> Reason | None:
    """Of a keyed state of an operator that has the states `beside`; None where their names say nothing."""
    is_unbounded = beside >= _OF_EVERY_OVER and not beside & _OF_OTHER_OVERS
    if state != _WAITING_ROWS or not is_unbounded or writer >= line.major:
        return None
    return Reason(
        Restores.UNKNOWN,
        "if it is that of an unbounded OVER by event time, Flink 2 may look for the rows that wait in it by timers of "
        "their own, which Flink 1 has not set: it takes the state without an error, and loses these rows",
        "RowTimeUnboundedPrecedingOverFunctionV2",
        "have the job on Flink 2 take what Flink 1 had: table.exec.unbounded-over.version: 1",
    )


def of_a_source(line: ReleaseLine) -> Reason:
    """Of the splits of a source, and of its coordinator."""
    return _of_a_connector("SourceOperator", line)


def of_a_kind(kind: str, line: ReleaseLine) -> Reason:
    """Of state whose types are not known here: `changelog`, `raw keyed state`, `records in flight`, …."""
    rule, why, way = _KINDS[kind]
    return Reason(Restores.UNKNOWN, why, rule, way.replace("that Flink", f"Flink {line}"))


def _of_a_connector(rule: str, line: ReleaseLine) -> Reason:
    why = "bytes that Flink hands to the connector: what its other release makes of them is not in the snapshot"
    return Reason(Restores.UNKNOWN, why, rule, _OF_A_CONNECTOR.format(line=line))

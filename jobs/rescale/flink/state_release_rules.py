"""Rules for restoring state in another release of Flink: state without serializers, or of classes that were removed.

The class that keeps operator state fixes its name, so the name identifies the class. Sources and sinks store bytes of
their connector: Flink passes these on, and the connector reads them.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from rescale.flink.advice import NOTHING_IN_FLIGHT, SAVEPOINT
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
    """State of a class that Flink 1 has and Flink 2 does not have: the class, its state, and what to do."""

    rule: str
    what: str
    way: str


_GONE = {
    OFFSETS_STATE: _Gone(
        _CONSUMER,
        "the offsets of a FlinkKafkaConsumer",
        "convert it to the state of the KafkaSource that replaces it (option kafka-source); or leave it out, and start "
        "the KafkaSource from the committed offsets of the consumer (OffsetsInitializer.committedOffsets)",
    ),
    **{
        name: _Gone(_PRODUCER, "the transactions of a FlinkKafkaProducer", _COMMITTED)
        for name in ("next-transactional-id-hint", "next-transactional-id-hint-v2")
    },
    "message-acknowledging-source-state": _Gone(
        _ACKNOWLEDGING,
        f"the unacknowledged messages of a {_ACKNOWLEDGING}",
        "leave it out: the queue sends unacknowledged messages again",
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
        "a changelog with changes that are not materialised: it is unknown how another release reads the log",
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
        "the snapshot does not name their types",
        NOTHING_IN_FLIGHT,
    ),
    "gone": (
        "KeyedBackendSerializationProxy",
        "the file that names its types is missing",
        "take another snapshot, because Flink cannot restore this one either; or drop it",
    ),
}


def by_name(state: str, writer: int, line: ReleaseLine) -> Reason | None:
    """Return the rule for an operator state by its name; None if no rule depends on that name.

    `writer` is the major version of Flink (1 or 2) that wrote the state, and `line` the release that is to restore it.
    """
    gone = _GONE.get(state)
    if gone is not None and writer < line.major:
        why = f"{gone.what}, a class that connectors for Flink {line.major} do not contain"
        return Reason(Restores.NO, why, gone.rule, gone.way)
    connector = _BYTES_OF_A_CONNECTOR.get(state)
    return _of_a_connector(connector, line) if connector is not None else None


_WAITING_ROWS = "inputState"
_OF_EVERY_OVER = {"accState", _WAITING_ROWS}
_OF_OTHER_OVERS = {"lastTriggeringTsState", "cleanupTsState", "smallestTSState"}
"""Keyed states of an OVER in SQL. An OVER that is bounded, or uses processing time, has one of `_OF_OTHER_OVERS`."""


def by_name_beside(state: str, beside: Set[str], writer: int, line: ReleaseLine) -> Reason | None:
    """Return the rule for a keyed state of an operator that has the states `beside`; None if there is no rule.

    `writer` and `line` are as for `by_name`.
    """
    is_unbounded = beside >= _OF_EVERY_OVER and not beside & _OF_OTHER_OVERS
    if state != _WAITING_ROWS or not is_unbounded or writer >= line.major:
        return None
    return Reason(
        Restores.UNKNOWN,
        "if an unbounded OVER by event time owns it, Flink 2 may expect timers for its waiting rows that Flink 1 does "
        "not set: it restores the state without an error, and loses these rows",
        "RowTimeUnboundedPrecedingOverFunctionV2",
        "make Flink 2 use the implementation of Flink 1: table.exec.unbounded-over.version: 1",
    )


def of_a_source(line: ReleaseLine) -> Reason:
    """Return the rule for the splits of a source and for the state of its coordinator."""
    return _of_a_connector("SourceOperator", line)


def of_a_kind(kind: str, line: ReleaseLine) -> Reason:
    """Return the rule for a kind of state without known types, such as `changelog` or `raw keyed state`."""
    rule, why, way = _KINDS[kind]
    return Reason(Restores.UNKNOWN, why, rule, way.replace("that Flink", f"Flink {line}"))


def _of_a_connector(rule: str, line: ReleaseLine) -> Reason:
    why = "bytes that only the connector can read: the snapshot does not say whether another release of it can"
    return Reason(Restores.UNKNOWN, why, rule, _OF_A_CONNECTOR.format(line=line))

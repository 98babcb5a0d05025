"""Checks that a `FlinkKafkaConsumer` can become a `KafkaSource`: it must hold offsets and no other state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rescale.flink.kafka.consumer import OFFSETS_STATE
from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_COORDINATORS
from rescale.planning.request.operator_shapes import by_operator
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.kafka.migrated import splits_of
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, UnsupportedError, located
from rescale.text.names import did_you_mean


def ids_to_migrate(
    new_names: Mapping[str, str],
    snapshot: Snapshot,
    sources: Sequence[KafkaOffsets],
    changes: Iterable[KafkaChange],
) -> set[str]:
    """Return the ids of the operators that become a `KafkaSource`: the consumers that are keys of `new_names`.

    `changes` has the other changes of each of the `sources`. Raises `RequestError` if an operator is not a
    `FlinkKafkaConsumer`, and `UnsupportedError` if it cannot be migrated.
    """
    consumers = {
        source.operator.operator_id: (source, change)
        for source, change in zip(sources, changes, strict=True)
        if source.kind is KafkaKind.CONSUMER
    }
    requested_names = by_operator(snapshot.operators, {consumer_name: consumer_name for consumer_name in new_names})
    for operator_id, consumer_name in requested_names.items():
        if operator_id not in consumers:
            labels = [source.label for source, _ in consumers.values()]
            raise RequestError(
                "an operator cannot become a KafkaSource: it is not a FlinkKafkaConsumer, or it is dropped",
                expected=f"one of {', '.join(labels)}" if labels else "none: the snapshot has no FlinkKafkaConsumer",
                found=consumer_name,
                advice=did_you_mean(consumer_name, labels),
            )
        source, change = consumers[operator_id]
        _refuse_other_state(source.operator, snapshot.metadata.version)
        _refuse_without_offsets(source, change)
    return set(requested_names)


def _refuse_without_offsets(source: KafkaOffsets, change: KafkaChange) -> None:
    new_positions = ((0, new) for position in source.positions if (new := change.new_position(position)) is not None)
    with located(operator=source.label):
        splits = splits_of(new_positions)
    if not splits:
        raise UnsupportedError(
            "a FlinkKafkaConsumer without offsets cannot become a KafkaSource: its start position is unknown",
            operator=source.label,
            advice=Advice(
                "take a savepoint and then cancel the job, because a savepoint that stops it may hold no offsets; or "
                "leave the operator out (",
                mention("drop", "UID"),
                "), so that the KafkaSource starts where the job's code says",
            ),
        )


def _refuse_other_state(operator: Operator, version: int) -> None:
    """Raise `UnsupportedError` for state that a `KafkaSource` would not restore, or for an old metadata version."""
    states = {state.name for stream in operator.element_streams for state in stream.states if state.elements}
    other_states = sorted(states - {OFFSETS_STATE})
    if (
        other_states
        or operator.raw_element_streams
        or operator.keyed_headers
        or operator.raw_keyed
        or operator.other_keyed
    ):
        raise UnsupportedError(
            "an operator with other state than Kafka offsets cannot become a KafkaSource, which would not restore it",
            operator=operator.label,
            expected=OFFSETS_STATE,
            found=", ".join(other_states) or "keyed or raw state",
        )
    if version < FIRST_VERSION_WITH_COORDINATORS:
        raise UnsupportedError(
            "a snapshot of this version cannot hold the state of a KafkaSource's enumerator",
            operator=operator.label,
            expected=f"metadata version {FIRST_VERSION_WITH_COORDINATORS} or newer",
            found=version,
            advice="restore the job with Flink 1.11 or newer, and take a savepoint there",
        )

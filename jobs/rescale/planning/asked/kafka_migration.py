"""Which `FlinkKafkaConsumer` may become a `KafkaSource`: one that holds its offsets, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rescale.errors import RequestError, UnsupportedError
from rescale.flink.kafka.consumer import OFFSETS_STATE
from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_COORDINATORS
from rescale.names import did_you_mean
from rescale.planning.asked.operator_shapes import by_operator
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.kafka.migrated import splits_of
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot


def becoming_sources(
    words: Mapping[str, str], snapshot: Snapshot, sources: Sequence[KafkaOffsets], changes: Iterable[KafkaChange]
) -> set[str]:
    """The ids of the operators that become a `KafkaSource`.

    `changes` are what else becomes of the `sources`, one for each. `RequestError` if one is no `FlinkKafkaConsumer`,
    `UnsupportedError` if it cannot become another.
    """
    consumers = {
        source.operator.operator_id: (source, change)
        for source, change in zip(sources, changes, strict=True)
        if source.kind is KafkaKind.CONSUMER
    }
    asked = by_operator(snapshot.operators, {old: old for old in words})
    for operator_id, old in asked.items():
        if operator_id not in consumers:
            labels = [source.label for source, _ in consumers.values()]
            raise RequestError(
                "only a FlinkKafkaConsumer that is not dropped can become a KafkaSource",
                expected=f"one of {', '.join(labels)}" if labels else "none: the snapshot has no FlinkKafkaConsumer",
                found=old,
                advice=did_you_mean(old, labels),
            )
        source, change = consumers[operator_id]
        _refuse_foreign(source.operator, snapshot.metadata.version)
        _refuse_no_splits(source, change)
    return set(asked)


def _refuse_no_splits(source: KafkaOffsets, change: KafkaChange) -> None:
    stored = ((0, new) for position in source.held if (new := change.applied(position)) is not None)
    try:
        splits = splits_of(stored)
    except UnsupportedError as error:
        raise error.located(operator=source.label) from None
    if not splits:
        raise UnsupportedError(
            "a FlinkKafkaConsumer without any offset cannot become a KafkaSource: there is nowhere to read on",
            operator=source.label,
            advice="take a savepoint and then cancel the job, for one that stops it may hold no offsets; or leave the "
            "operator out (--drop UID), so that the KafkaSource begins where the job says",
        )


def _refuse_foreign(operator: Operator, version: int) -> None:
    """What a `KafkaSource` would not find, and where its coordinator has no place."""
    states = {state.name for stream in operator.operator for state in stream.states if state.elements}
    others = sorted(states - {OFFSETS_STATE})
    if others or operator.raw_operator or operator.keyed_headers or operator.raw_keyed or operator.other_keyed:
        raise UnsupportedError(
            "an operator that holds more than Kafka offsets cannot become a KafkaSource: that would not find the rest",
            operator=operator.label,
            expected=OFFSETS_STATE,
            found=", ".join(others) or "keyed or raw state",
        )
    if version < FIRST_VERSION_WITH_COORDINATORS:
        raise UnsupportedError(
            "a snapshot of this version has no place for what a KafkaSource's enumerator stores",
            operator=operator.label,
            expected=f"metadata version {FIRST_VERSION_WITH_COORDINATORS} or newer",
            found=version,
            advice="let Flink 1.11 or newer restore the job, and take a savepoint with it",
        )

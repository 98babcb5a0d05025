"""Resolves the changes of Kafka offsets that a request asks for, partition by partition.

Every topic and partition that a request names must be in the snapshot, because no source would read an offset of
another partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rescale.flink.kafka.position import StartAt, TopicPartition
from rescale.planning.request.kafka_migration import ids_to_migrate
from rescale.planning.request.kafka_offsets import KafkaRequest, OffsetRow
from rescale.planning.request.operator_shapes import by_operator
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.kafka.offsets import UNREAD_KINDS, KafkaOffsets, kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import Surgery
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import RequestError, UnsupportedError
from rescale.text.names import did_you_mean, first_of

_MOST_SHOWN = 8
"""Largest number of partitions or sources that an error names."""

_OffsetByPartition = Mapping[TopicPartition, int | StartAt | None]
"""The stored offset of each partition of a source; None for a partition without one."""


def add_kafka_changes(surgery: Surgery, snapshot: Snapshot, request: KafkaRequest) -> Surgery:
    """Return the surgery with the requested changes of Kafka sources added.

    `snapshot` is the snapshot before the surgery. Raises `RequestError` if the request names a source, topic or
    partition that does not exist, and `UnsupportedError` if the offsets of a source cannot be read.
    """
    if not request:
        return surgery
    source_offsets = kafka_offsets(snapshot)
    staying_sources = [source for source in source_offsets if source.operator.operator_id not in surgery.dropped_ids]
    sources = [source for source in staying_sources if source.kind not in UNREAD_KINDS]
    advice = _inspect_advice([source for source in staying_sources if source.kind in UNREAD_KINDS])
    if not sources:
        raise RequestError(
            "the request changes Kafka sources, but the snapshot holds no Kafka offsets",
            expected="a KafkaSource or a FlinkKafkaConsumer with offsets",
            advice=advice,
        )
    for source in sources:
        _refuse_unread(source)
    rows_by_id = _rows_by_source(request.offsets, snapshot, sources, advice)
    _refuse_unknown_topics(request.topics, sources, advice)
    changes = [_source_change(source, rows_by_id[source.operator.operator_id], request.topics) for source in sources]
    migrated_ids = ids_to_migrate(request.sources, snapshot, sources, changes)
    all_changes = (replace(change, becomes_source=change.operator_id in migrated_ids) for change in changes)
    return replace(surgery, kafka=tuple(change for change in all_changes if change.partitions or change.becomes_source))


def _inspect_advice(unread_sources: Sequence[KafkaOffsets]) -> Advice:
    """Return advice on a partition that is not in the snapshot; the offsets of `unread_sources` were not read."""
    inspect_advice = Advice(command("inspect"), " lists the offsets of Kafka sources")
    if not unread_sources:
        return inspect_advice
    labels = first_of([f"{source.label} ({source.kind})" for source in unread_sources], _MOST_SHOWN)
    return Advice(
        f"Rescale cannot read or change the offsets of {labels}, and does not know partitions that only these sources "
        "read; ",
        inspect_advice,
        ", and says which it cannot read",
    )


def _refuse_unread(source: KafkaOffsets) -> None:
    if reason := source.unread_reason or source.unread_enumerator_reason:
        raise UnsupportedError(
            "the request changes Kafka offsets, but the offsets of this source cannot be read",
            operator=source.label,
            found=reason,
            advice=Advice("leave the offsets as they are, or leave the operator out (", mention("drop", "UID"), ")"),
        )


def _rows_by_source(
    rows: Sequence[OffsetRow], snapshot: Snapshot, sources: Sequence[KafkaOffsets], advice: Advice
) -> dict[str, list[OffsetRow]]:
    """Return the rows for each source, by operator id. Raises `RequestError` for a row that applies to no source."""
    named_operators = {row.operator for row in rows if row.operator}
    id_by_name = {name: next(iter(by_operator(snapshot.operators, {name: True}))) for name in named_operators}
    stored_by_id = {source.operator.operator_id: _stored_offsets(source) for source in sources}
    rows_by_id: dict[str, list[OffsetRow]] = {operator_id: [] for operator_id in stored_by_id}
    for row in rows:
        chosen_ids = [id_by_name[row.operator]] if row.operator else list(stored_by_id)
        matching_ids = [
            operator_id for operator_id in chosen_ids if _partitions_of(row, stored_by_id.get(operator_id, {}))
        ]
        if not matching_ids:
            raise RequestError(
                "the request sets the offset of a partition for which no Kafka source has an offset"
                if row.offset is not None
                else "the request drops a partition that no Kafka source has",
                operator=row.operator or None,
                expected=_partitions_text(stored_by_id[id_] for id_ in chosen_ids if id_ in stored_by_id),
                found=row.topic if row.partition is None else TopicPartition(row.topic, row.partition),
                advice=advice,
            )
        for operator_id in matching_ids:
            rows_by_id[operator_id].append(row)
    return rows_by_id


def _refuse_unknown_topics(new_topics: Mapping[str, str], sources: Sequence[KafkaOffsets], advice: Advice) -> None:
    stored_topics = sorted({partition.topic for source in sources for partition in _stored_offsets(source)})
    for topic in new_topics:
        if topic not in stored_topics:
            raise RequestError(
                "the request renames a topic of which no Kafka source has a partition",
                expected=f"one of {', '.join(stored_topics)}",
                found=topic,
                advice=did_you_mean(topic, stored_topics) or advice,
            )


def _source_change(source: KafkaOffsets, rows: Sequence[OffsetRow], new_topics: Mapping[str, str]) -> KafkaChange:
    stored_offsets = _stored_offsets(source)
    row_by_partition: dict[TopicPartition, OffsetRow] = {}
    for row in rows:
        for partition in _partitions_of(row, stored_offsets):
            if partition in row_by_partition:
                raise RequestError(
                    "a partition is given two offsets",
                    operator=source.label,
                    found=f"{partition}: {_offset_text(row_by_partition[partition])} and {_offset_text(row)}",
                    advice="leave one of the rows out",
                )
            row_by_partition[partition] = row
    partition_changes = [
        _partition_change(source, partition, row_by_partition.get(partition), new_topics)
        for partition in sorted(stored_offsets)
    ]
    dropped_partitions = {
        TopicPartition(change.topic, change.partition) for change in partition_changes if change.dropped
    }
    _refuse_common_topics(
        source, new_topics, {partition.topic for partition in stored_offsets.keys() - dropped_partitions}
    )
    changed_partitions = tuple(
        change
        for change in partition_changes
        if change.dropped or change.new_next is not None or change.new_topic is not None
    )
    return KafkaChange(source.operator.operator_id, source.label, source.kind.value, changed_partitions)


def _refuse_common_topics(source: KafkaOffsets, new_topics: Mapping[str, str], kept_topics: Iterable[str]) -> None:
    """Raise `RequestError` if two topics of a source would get the same name; `kept_topics` are those not dropped."""
    old_by_new_topic: dict[str, str] = {}
    for topic in sorted(kept_topics):
        new_topic = new_topics.get(topic, topic)
        if new_topic in old_by_new_topic:
            raise RequestError(
                "two topics would get the same name",
                operator=source.label,
                expected="a name that no other topic of the source has",
                found=f"{new_topic} for {old_by_new_topic[new_topic]} and {topic}",
                advice="give another name, or drop the offsets of one of the two",
            )
        old_by_new_topic[new_topic] = topic


def _partition_change(
    source: KafkaOffsets, partition: TopicPartition, row: OffsetRow | None, new_topics: Mapping[str, str]
) -> ChangedPartition:
    """Return the change of a partition: the row's offset if another one is stored, and the topic's new name."""
    stored_offsets = {
        position.next
        for position in (*source.positions, *source.unassigned_positions)
        if position.partition == partition
    }
    stored_offset = min(stored_offsets, key=str) if stored_offsets else None
    new_topic = new_topics.get(partition.topic)
    if row is None or stored_offsets == {row.offset}:
        return ChangedPartition(*partition, stored_offset, None, new_topic=new_topic)
    if row.offset is None:
        return ChangedPartition(*partition, stored_offset, None, dropped=True)
    if row.offset is StartAt.UNSET:
        raise RequestError(
            "an offset cannot be changed to unset",
            operator=source.label,
            expected=f"a number, or {', '.join(start for start in StartAt if start is not StartAt.UNSET)}",
            found=f"{row.offset} for {partition}",
        )
    return ChangedPartition(*partition, stored_offset, row.offset, new_topic=new_topic)


def _stored_offsets(source: KafkaOffsets) -> _OffsetByPartition:
    assigned_partitions = source.enumerator.partitions if source.enumerator is not None else set()
    offsets = {position.partition: position.next for position in (*source.unassigned_positions, *source.positions)}
    return {**dict.fromkeys(sorted(assigned_partitions)), **offsets}


def _partitions_of(row: OffsetRow, stored_offsets: _OffsetByPartition) -> list[TopicPartition]:
    """Return the partitions that a row applies to; a partition without an offset can only be dropped."""
    return [
        partition
        for partition, offset in stored_offsets.items()
        if partition.topic == row.topic
        and row.partition in (None, partition.partition)
        and (row.offset is None or offset is not None)
    ]


def _partitions_text(sources: Iterable[_OffsetByPartition]) -> str:
    """Return the names of all partitions with an offset as text, shortened if there are many; "none" without any."""
    names = sorted(
        {
            str(partition)
            for offsets_of_source in sources
            for partition, offset in offsets_of_source.items()
            if offset is not None
        }
    )
    return f"one of {first_of(names, _MOST_SHOWN)}" if names else "none: no offset is stored"


def _offset_text(row: OffsetRow) -> str:
    return "drop" if row.offset is None else str(row.offset)

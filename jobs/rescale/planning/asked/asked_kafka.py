"""From what a request says of Kafka offsets to what changes, partition by partition.

Whatever is named must be there: an offset for a partition that nobody holds would be read by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rescale.errors import RequestError, UnsupportedError
from rescale.flink.kafka.position import StartAt, TopicPartition
from rescale.names import did_you_mean, first_of
from rescale.planning.asked.kafka_migration import becoming_sources
from rescale.planning.asked.kafka_words import KafkaWords, OffsetRow
from rescale.planning.asked.operator_shapes import by_operator
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets, kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import Surgery

_SHOWN = 8

_Known = Mapping[TopicPartition, int | StartAt | None]
"""By partition, the offset that is stored for it; None where there is none."""


def with_kafka(surgery: Surgery, snapshot: Snapshot, words: KafkaWords) -> Surgery:
    """The surgery, and what is asked for of the Kafka sources of the snapshot, which is the one before.

    `RequestError` if something is named that is not there, `UnsupportedError` if a source's offsets are not read.
    """
    if not words:
        return surgery
    dropped = {one.operator_id for one in surgery.dropped}
    sources = [
        source
        for source in kafka_offsets(snapshot)
        if source.operator.operator_id not in dropped and source.kind is not KafkaKind.DYNAMIC
    ]
    if not sources:
        raise RequestError(
            "Kafka sources are to change, and the snapshot holds no Kafka offsets",
            expected="a KafkaSource or a FlinkKafkaConsumer with offsets",
            advice="rescale inspect lists the operators and what they hold",
        )
    for source in sources:
        _refuse_unread(source)
    rows = _rows_by_source(words.offsets, snapshot, sources)
    _refuse_unknown_topics(words.topics, sources)
    changes = [_change(source, rows[source.operator.operator_id], words.topics) for source in sources]
    migrated = becoming_sources(words.sources, snapshot, sources, changes)
    kafka = (replace(change, becomes_source=change.operator_id in migrated) for change in changes)
    return replace(surgery, kafka=tuple(change for change in kafka if change.partitions or change.becomes_source))


def _refuse_unread(source: KafkaOffsets) -> None:
    if why := source.unread or source.unread_enumerator:
        raise UnsupportedError(
            "Kafka offsets are to change, and those of a source cannot be read",
            operator=source.label,
            found=why,
            advice="leave the offsets as they are, or leave the operator out (--drop UID)",
        )


def _rows_by_source(
    rows: Sequence[OffsetRow], snapshot: Snapshot, sources: Sequence[KafkaOffsets]
) -> dict[str, list[OffsetRow]]:
    """The rows that speak of each source, by operator id; each speaks of one at least."""
    named = {row.operator for row in rows if row.operator}
    ids = {name: next(iter(by_operator(snapshot.operators, {name: True}))) for name in named}
    known = {source.operator.operator_id: _known(source) for source in sources}
    found: dict[str, list[OffsetRow]] = {operator_id: [] for operator_id in known}
    for row in rows:
        asked = [ids[row.operator]] if row.operator else list(known)
        takers = [operator_id for operator_id in asked if _of(row, known.get(operator_id, {}))]
        if not takers:
            raise RequestError(
                "there are offsets for a partition that no Kafka source holds"
                if row.offset is not None
                else "a partition is to be dropped that no Kafka source has",
                operator=row.operator or None,
                expected=f"one of {_there(known[one] for one in asked if one in known)}",
                found=row.topic if row.partition is None else TopicPartition(row.topic, row.partition),
                advice="rescale inspect lists what Kafka sources hold",
            )
        for operator_id in takers:
            found[operator_id].append(row)
    return found


def _refuse_unknown_topics(topics: Mapping[str, str], sources: Sequence[KafkaOffsets]) -> None:
    there = sorted({partition.topic for source in sources for partition in _known(source)})
    for topic in topics:
        if topic not in there:
            raise RequestError(
                "no Kafka source has a partition of the topic that is to get another name",
                expected=f"one of {', '.join(there)}",
                found=topic,
                advice=did_you_mean(topic, there),
            )


def _change(source: KafkaOffsets, rows: Sequence[OffsetRow], topics: Mapping[str, str]) -> KafkaChange:
    known = _known(source)
    asked: dict[TopicPartition, OffsetRow] = {}
    for row in rows:
        for partition in _of(row, known):
            if partition in asked:
                raise RequestError(
                    "a partition is given two offsets",
                    operator=source.label,
                    found=f"{partition}: {_word(asked[partition])} and {_word(row)}",
                    advice="leave one of the rows out",
                )
            asked[partition] = row
    changed = [_changed(source, partition, asked.get(partition), topics) for partition in sorted(known)]
    dropped = {TopicPartition(one.topic, one.partition) for one in changed if one.dropped}
    _refuse_two_onto_one(source, topics, {partition.topic for partition in known.keys() - dropped})
    of_note = tuple(one for one in changed if one.dropped or one.new_next is not None or one.new_topic is not None)
    return KafkaChange(source.operator.operator_id, source.label, source.kind.value, of_note)


def _refuse_two_onto_one(source: KafkaOffsets, topics: Mapping[str, str], left: Iterable[str]) -> None:
    names: dict[str, str] = {}
    for topic in sorted(left):
        new = topics.get(topic, topic)
        if new in names:
            raise RequestError(
                "two topics would have one name",
                operator=source.label,
                expected="a name that no other topic of the source has",
                found=f"{new} for {names[new]} and {topic}",
                advice="give another name, or drop the offsets of one of the two",
            )
        names[new] = topic


def _changed(
    source: KafkaOffsets, partition: TopicPartition, row: OffsetRow | None, topics: Mapping[str, str]
) -> ChangedPartition:
    """What a row asks for, which may be there already, and a new name."""
    held = {position.next for position in (*source.held, *source.waiting) if position.partition == partition}
    stored = min(held, key=str) if held else None
    name = topics.get(partition.topic)
    if row is None or held == {row.offset}:
        return ChangedPartition(*partition, stored, None, new_topic=name)
    if row.offset is None:
        return ChangedPartition(*partition, stored, None, dropped=True)
    if row.offset is StartAt.UNSET:
        raise RequestError(
            "an offset cannot be taken back",
            operator=source.label,
            expected=f"a number, or {', '.join(word for word in StartAt if word is not StartAt.UNSET)}",
            found=f"{row.offset} for {partition}",
        )
    return ChangedPartition(*partition, stored, row.offset, new_topic=name)


def _known(source: KafkaOffsets) -> _Known:
    book = source.enumerator.known if source.enumerator is not None else set()
    held = {position.partition: position.next for position in (*source.waiting, *source.held)}
    return {**dict.fromkeys(sorted(book)), **held}


def _of(row: OffsetRow, known: _Known) -> list[TopicPartition]:
    """The partitions that a row speaks of: those with an offset, or if it drops them, any that there is a word of."""
    return [
        partition
        for partition, offset in known.items()
        if partition.topic == row.topic
        and row.partition in (None, partition.partition)
        and (row.offset is None or offset is not None)
    ]


def _there(known: Iterable[_Known]) -> str:
    """The partitions that have offsets, in a few words."""
    names = sorted({str(partition) for one in known for partition, offset in one.items() if offset is not None})
    return first_of(names, _SHOWN) or "none: it holds no offsets"


def _word(row: OffsetRow) -> str:
    return "drop" if row.offset is None else str(row.offset)

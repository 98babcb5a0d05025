"""Shows Kafka offsets as a document, as a table with a row for each topic, and as a line for each source."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from rescale.flink.kafka.position import Position
from rescale.report.documents import KafkaFinding, KafkaPartition, KafkaSource
from rescale.report.page import Block
from rescale.report.shortening import cut_table
from rescale.snapshot.kafka.audit import audit, positions_per_subtask, spread_findings
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.text.units import counted

_MOST_SUBTASKS = 8
"""Largest number of subtasks whose numbers the text shows; the JSON has all."""


def kafka_document(offsets: KafkaOffsets, new_parallelism: int | None = None) -> KafkaSource:
    """Return the offsets of a source by partition and subtask; with `new_parallelism`, also by new subtask."""
    parallelism = offsets.operator.parallelism
    subtasks = offsets.reading_subtasks(parallelism)
    new_subtasks = offsets.reading_subtasks(new_parallelism) if new_parallelism is not None else [UNSET] * len(subtasks)
    unassigned = offsets.enumerator.unassigned if offsets.enumerator else ()
    return KafkaSource(
        operator_id=offsets.operator.operator_id,
        operator=offsets.label,
        kind=offsets.kind.value,
        partitions=tuple(map(_partition, offsets.positions, subtasks, new_subtasks)),
        unassigned=tuple(str(position.partition) for position in unassigned),
        not_read=offsets.unread_reason,
        findings=tuple(
            KafkaFinding(finding.name, finding.sentence)
            for finding in (*audit([offsets]), *spread_findings(offsets, new_parallelism or parallelism))
        ),
        per_subtask=tuple(positions_per_subtask(offsets, parallelism)),
        new_per_subtask=tuple(positions_per_subtask(offsets, new_parallelism))
        if new_parallelism is not None
        else UNSET,
    )


def _partition(position: Position, subtask: int, new_subtask: int | UnsetType) -> KafkaPartition:
    (topic, partition), next_offset, stop_offset = position
    return KafkaPartition(topic, partition, next_offset, stop_offset, subtask, new_subtask)


def kafka_tables(sources: Sequence[KafkaSource]) -> list[Block]:
    """Return a table with a row for each topic; nothing if there is no Kafka source."""
    rows = [row for source in sources for row in _topic_rows(source)]
    headers = ("Kafka source", "topic", "partitions", "next records", "partitions by subtask")
    return cut_table(headers, rows, "more topic", "more topics")


def kafka_line(source: KafkaSource) -> str:
    topics = _topics_with_offsets(source)
    if not topics:
        return f"{_label(source)}: {'its offsets were not read' if source.not_read else 'no offsets'}"
    offsets_text = "; ".join(
        f"{counted(len(next_offsets), 'partition')} of {topic}, next {_offset_range_text(next_offsets)}"
        for topic, next_offsets in topics
    )
    return f"{_label(source)}: {offsets_text}; by subtask {_old_and_new_shares_text(source)}"


def _topic_rows(source: KafkaSource) -> list[tuple[str, ...]]:
    """Return a row for each topic; the first row also has the number of partitions by subtask."""
    topics = _topics_with_offsets(source)
    if not topics:
        return [(_label(source), "", "not read" if source.not_read else "none", "", "")]
    return [
        (
            _label(source) if not i else "",
            topic,
            str(len(next_offsets)),
            _offset_range_text(next_offsets),
            _old_and_new_shares_text(source) if not i else "",
        )
        for i, (topic, next_offsets) in enumerate(topics)
    ]


def _label(source: KafkaSource) -> str:
    return f"{source.operator} ({source.kind})"


def _topics_with_offsets(source: KafkaSource) -> list[tuple[str, list[int | str]]]:
    """Return the topics, sorted by name, each with the next offsets of its partitions."""
    offsets_by_topic: dict[str, list[int | str]] = {}
    for partition in source.partitions:
        offsets_by_topic.setdefault(partition.topic, []).append(partition.next)
    return sorted(offsets_by_topic.items())


def _old_and_new_shares_text(source: KafkaSource) -> str:
    """Return the number of partitions by subtask now and, if it changes, afterwards."""
    shares_before = _shares_text(source.per_subtask)
    shares_after = _shares_text(source.new_per_subtask or source.per_subtask)
    return shares_before if shares_after == shares_before else f"{shares_before} → {shares_after}"


def _offset_range_text(next_offsets: list[int | str]) -> str:
    """Return the lowest and highest offset, and the start positions (`earliest`) of partitions without an offset."""
    numeric_offsets = sorted({offset for offset in next_offsets if isinstance(offset, int)})
    bounds = [f"{number:,}" for number in dict.fromkeys((*numeric_offsets[:1], *numeric_offsets[-1:]))]
    return ", ".join(
        [
            *([" to ".join(bounds)] if bounds else []),
            *sorted({offset for offset in next_offsets if isinstance(offset, str)}),
        ]
    )


def _shares_text(numbers: Sequence[int]) -> str:
    if len(numbers) <= _MOST_SUBTASKS:
        return ", ".join(map(str, numbers))
    return f"{min(numbers)} to {max(numbers)} in {len(numbers)}"

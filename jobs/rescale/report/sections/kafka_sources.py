"""The section about Kafka sources: offsets by partition and subtask, before and after, and warnings about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from rescale.report.detail import DetailLevel
from rescale.report.documents import KafkaSource
from rescale.report.figures import Sparks
from rescale.report.page import Block, Figure, Section, WarningBlock, paragraph, table
from rescale.report.pages.kafka import kafka_line
from rescale.report.sections.dealt_elements import sparkline
from rescale.text.units import counted


def kafka_section(sources: Sequence[KafkaSource], detail: DetailLevel) -> list[Block]:
    """Return the section about Kafka sources; none without a source."""
    shown_sources = sources[: detail.most_rows]
    blocks: list[Block] = []
    sparks = [
        sparkline(
            f"{source.operator} ({source.kind})",
            source.per_subtask,
            source.new_per_subtask or None,
            kafka_line(source),
        )
        for source in shown_sources
        if source.partitions
    ]
    if sparks:
        rows, partition_count = list(_partition_rows(shown_sources)), sum(len(source.partitions) for source in sources)
        is_planned = bool(shown_sources[0].partitions) and shown_sources[0].partitions[0].new_subtask is not UNSET
        headers = ("source", "topic", "partition", "next record", "subtask", *(["new subtask"] if is_planned else []))
        is_cut = len(rows) > 4 * detail.most_rows
        rows_note = (
            f"the first {4 * detail.most_rows} of {counted(partition_count, 'partition')}" if is_cut else "partitions"
        )
        caption = "How many partitions each subtask reads. Offsets stay the same, except for declared differences."
        numbers = table(headers, rows[: 4 * detail.most_rows])
        blocks.append(Figure("Partitions by subtask", caption, Sparks(tuple(sparks)), numbers, rows_note))
    blocks += [paragraph(kafka_line(source)) for source in shown_sources if not source.partitions]
    labelled_findings = [(source.operator, finding) for source in sources for finding in source.findings]
    blocks += [
        WarningBlock(f"{label}: {finding.sentence} [{finding.name}]")
        for label, finding in labelled_findings[: detail.most_rows]
    ]
    return [Section("Kafka sources", tuple(blocks))] if blocks else []


def _partition_rows(sources: Sequence[KafkaSource]) -> Iterator[tuple[object, ...]]:
    for source in sources:
        for partition in source.partitions:
            next_offset = partition.next
            new_subtask = [] if partition.new_subtask is UNSET else [partition.new_subtask]
            yield (
                source.operator,
                partition.topic,
                partition.partition,
                f"{next_offset:,}" if isinstance(next_offset, int) else next_offset,
                partition.subtask,
                *new_subtask,
            )

"""Kafka offsets as JSON values, as a table with a line for each topic, and in one line for a source."""

from __future__ import annotations

from typing import Any

from rescale.flink.kafka.position import Position
from rescale.report.page import Block
from rescale.report.shortening import cut_table
from rescale.report.units import counted
from rescale.snapshot.kafka.audit import audit, per_subtask, spread
from rescale.snapshot.kafka.offsets import KafkaOffsets

_MOST_SUBTASKS = 8
"""Subtasks whose numbers the text shows; the JSON has all."""


def kafka_document(kafka: KafkaOffsets, new_parallelism: int | None = None) -> dict[str, Any]:
    """What one source holds; with `new_parallelism`, also who will hold it."""
    parallelism = kafka.operator.parallelism
    document: dict[str, Any] = {
        "operator_id": kafka.operator.operator_id,
        "operator": kafka.label,
        "kind": kafka.kind.value,
        "partitions": [_partition(position) for position in kafka.held],
        "unassigned": [str(position.partition) for position in kafka.enumerator.unassigned] if kafka.enumerator else [],
        "not_read": kafka.unread,
        "findings": [
            {"name": finding.name, "sentence": finding.sentence}
            for finding in (*audit([kafka]), *spread(kafka, new_parallelism or parallelism))
        ],
    }
    for prefix, number in (("", parallelism), ("new_", new_parallelism)):
        if number is not None:
            for partition, subtask in zip(document["partitions"], kafka.holders(number), strict=True):
                partition[f"{prefix}subtask"] = subtask
            document[f"{prefix}per_subtask"] = per_subtask(kafka, number)
    return document


def _partition(position: Position) -> dict[str, Any]:
    (topic, partition), following, stop = position
    return {"topic": topic, "partition": partition, "next": following, "stop": stop}


def kafka_tables(documents: list[dict[str, Any]]) -> list[Block]:
    """One with a line for each topic; none where there is no Kafka source."""
    rows = [row for document in documents for row in _rows(document)]
    headers = ("Kafka source", "topic", "partitions", "next records", "partitions by subtask")
    return cut_table(headers, rows, "more topic", "more topics")


def kafka_line(document: dict[str, Any]) -> str:
    """What the table says of a source, in a sentence."""
    topics = _topics(document)
    if not topics:
        return f"{_label(document)}: {'its offsets were not read' if document['not_read'] else 'no offsets'}"
    read = "; ".join(f"{counted(len(nexts), 'partition')} of {topic}, next {_range(nexts)}" for topic, nexts in topics)
    return f"{_label(document)}: {read}; by subtask {_all_shares(document)}"


def _rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """One for each topic; how the subtasks share all of them stands in the first."""
    topics = _topics(document)
    if not topics:
        return [(_label(document), "", "not read" if document["not_read"] else "none", "", "")]
    return [
        (
            _label(document) if not i else "",
            topic,
            str(len(nexts)),
            _range(nexts),
            _all_shares(document) if not i else "",
        )
        for i, (topic, nexts) in enumerate(topics)
    ]


def _label(document: dict[str, Any]) -> str:
    return f"{document['operator']} ({document['kind']})"


def _topics(document: dict[str, Any]) -> list[tuple[str, list[int | str]]]:
    """Each topic, by name, with where its partitions are read on."""
    topics: dict[str, list[int | str]] = {}
    for partition in document["partitions"]:
        topics.setdefault(partition["topic"], []).append(partition["next"])
    return sorted(topics.items())


def _all_shares(document: dict[str, Any]) -> str:
    """Now and, if they change, afterwards."""
    before = _shares(document["per_subtask"])
    after = _shares(document.get("new_per_subtask", document["per_subtask"]))
    return before if after == before else f"{before} → {after}"


def _range(nexts: list[int | str]) -> str:
    """From the lowest offset to the highest, and where reading begins that has none."""
    numbers = sorted({one for one in nexts if isinstance(one, int)})
    bounds = [f"{number:,}" for number in dict.fromkeys((*numbers[:1], *numbers[-1:]))]
    return ", ".join(
        [*([" to ".join(bounds)] if bounds else []), *sorted({one for one in nexts if isinstance(one, str)})]
    )


def _shares(numbers: list[int]) -> str:
    if len(numbers) <= _MOST_SUBTASKS:
        return ", ".join(map(str, numbers))
    return f"{min(numbers)} to {max(numbers)} in {len(numbers)}"

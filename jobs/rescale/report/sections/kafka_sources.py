"""Kafka offsets by partition and subtask, before and after, with what is odd about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rescale.report.detail import Detail
from rescale.report.figures import Sparks
from rescale.report.page import Block, Figure, Section, Warned, paragraph, table
from rescale.report.pages.kafka import kafka_line
from rescale.report.sections.dealt_elements import spark
from rescale.report.units import counted


def kafka_sources(documents: Sequence[dict[str, Any]], detail: Detail) -> list[Block]:
    shown = documents[: detail.rows]
    blocks: list[Block] = []
    sparks = [
        spark(f"{one['operator']} ({one['kind']})", one["per_subtask"], one.get("new_per_subtask"), kafka_line(one))
        for one in shown
        if one["partitions"]
    ]
    if sparks:
        rows, number = list(_partitions(shown)), sum(len(one["partitions"]) for one in documents)
        planned = "new_subtask" in shown[0]["partitions"][0] if shown[0]["partitions"] else False
        headers = ("source", "topic", "partition", "next record", "subtask", *(["new subtask"] if planned else []))
        cut = len(rows) > 4 * detail.rows
        most = f"the first {4 * detail.rows} of {counted(number, 'partition')}" if cut else "partitions"
        words = "How many partitions each subtask reads. Offsets are moved as they are, but for declared differences."
        numbers = table(headers, rows[: 4 * detail.rows])
        blocks.append(Figure("Partitions by subtask", words, Sparks(tuple(sparks)), numbers, most))
    blocks += [paragraph(kafka_line(one)) for one in shown if not one["partitions"]]
    odd = [(one["operator"], found) for one in documents for found in one["findings"]]
    blocks += [Warned(f"{operator}: {found['sentence']} [{found['name']}]") for operator, found in odd[: detail.rows]]
    return [Section("Kafka sources", tuple(blocks))] if blocks else []


def _partitions(documents: Sequence[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    for one in documents:
        for partition in one["partitions"]:
            following = partition["next"]
            new = [partition["new_subtask"]] if "new_subtask" in partition else []
            yield (
                one["operator"],
                partition["topic"],
                partition["partition"],
                f"{following:,}" if isinstance(following, int) else following,
                partition["subtask"],
                *new,
            )

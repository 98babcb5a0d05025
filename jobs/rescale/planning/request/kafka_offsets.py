"""Parses the Kafka part of a request: new names of topics and sources, and a file of offsets.

The file is CSV or JSON, as `rescale inspect --kafka-offsets` prints it, with a row for each partition.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec import structs

from rescale.flink.kafka.position import StartAt, is_topic
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import RequestError

DROP_WORD = "drop"
"""Word that a row has as its offset if its partition is left out of the result."""
ALL_PARTITIONS = "*"
"""Sign that a row has as its partition number if it applies to all partitions of its topic."""

COLUMNS = ("operator", "topic", "partition", "offset")
OFFSET_FILE_FORMS = ("csv", "json")
_EXPECTED_OFFSET = f"an offset, {', '.join(StartAt)}, or {DROP_WORD}"
_LARGEST_OFFSET = (1 << 63) - 1


class OffsetRow(NamedTuple):
    """A row of a file of offsets.

    `operator` is "" for every Kafka source that has the partition, `partition` is None for all partitions of the topic.
    `offset` is the offset of the next record to read; None if the partition is left out of the result.
    """

    operator: str
    topic: str
    partition: int | None
    offset: int | StartAt | None


class PrintedOffset(msgspec.Struct, frozen=True):
    """A row that `inspect --kafka-offsets` prints."""

    operator: str
    topic: str
    partition: int
    offset: int | str


@dataclass(frozen=True)
class KafkaRequest:
    """Requested changes of the Kafka sources of a snapshot.

    `topics` maps topics to their new names. `sources` maps each `FlinkKafkaConsumer` that becomes a `KafkaSource` to
    its new uid or id, "" if it keeps the old one.
    """

    offsets: tuple[OffsetRow, ...] = ()
    topics: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.offsets or self.topics or self.sources)

    def merged_renames(self, renames: Mapping[str, str]) -> dict[str, str]:
        """Return `renames` with the new names in `sources`. Raises `RequestError` if an operator gets two new names."""
        if twice_renamed := sorted(renames.keys() & self.sources.keys()):
            raise RequestError(
                "an operator becomes a KafkaSource, and is also renamed by another option",
                found=twice_renamed[0],
                advice=Advice("give its new name once: ", mention("kafka-source", "OLD=NEW")),
            )
        return {**renames, **{old: new for old, new in self.sources.items() if new}}


NO_KAFKA_REQUEST = KafkaRequest()


def parse_offsets(text: str) -> tuple[OffsetRow, ...]:
    """Return the rows of a file of offsets; none if the file is empty. Raises `RequestError` for an invalid row."""
    if not text.strip():
        return ()
    rows = list(_json_rows(text) if text.lstrip()[0] in "[{" else _csv_rows(text))
    parsed_rows = tuple(_parse_row(row_label, row) for row_label, row in rows)
    seen_partitions: set[OffsetRow] = set()
    for (row_label, _), row in zip(rows, parsed_rows, strict=True):
        partition_row = row._replace(offset=None)
        if partition_row in seen_partitions:
            raise RequestError(
                f"{row_label} of the Kafka offsets names a partition a second time",
                found=f"{row.topic} {ALL_PARTITIONS if row.partition is None else row.partition}",
                advice="give each partition one row",
            )
        seen_partitions.add(partition_row)
    return parsed_rows


def parse_topics(option_values: Iterable[str]) -> dict[str, str]:
    """Parse values `OLD=NEW` into a mapping from topics to their new names."""
    topics: dict[str, str] = {}
    for value in option_values:
        old, _, new = value.partition("=")
        if not is_topic(old) or not is_topic(new) or old == new:
            raise RequestError(
                f"not a new name of a topic: {value!r}",
                expected="OLD=NEW, two different names of 1 to 249 letters, digits, dots, dashes or underscores",
                found=value,
            )
        if old in topics:
            raise RequestError(f"the new name of the topic {old!r} is given twice", found=value)
        topics[old] = new
    return topics


def parse_sources(option_values: Iterable[str]) -> dict[str, str]:
    """Parse `OLD=NEW`, or `OLD` to keep the name, into a mapping from old to new names ("" to keep the name)."""
    sources: dict[str, str] = {}
    for value in option_values:
        old, equals, new = value.partition("=")
        if not old or (equals and not new):
            raise RequestError(
                f"not an operator that becomes a KafkaSource: {value!r}",
                expected="OLD=NEW, each a uid or an operator id, or OLD if the name stays",
                found=value,
            )
        if old in sources:
            raise RequestError(f"the operator {old!r} becomes a KafkaSource twice", found=value)
        sources[old] = "" if new == old else new
    return sources


def offsets_text(source_offsets: Iterable[KafkaOffsets], form: str) -> str:
    """Return the stored offsets as rows, in the form `csv` or `json`, which `parse_offsets` reads.

    Raises `RequestError` if the offsets of a source could not be read.
    """
    rows = [row for offsets in source_offsets for row in _rows_of(offsets)]
    if form == "json":
        return json.dumps([structs.asdict(row) for row in rows], indent=2)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([COLUMNS, *map(structs.astuple, rows)])
    return buffer.getvalue().rstrip("\n")


def _rows_of(offsets: KafkaOffsets) -> list[PrintedOffset]:
    if reason := offsets.unread_reason or offsets.unread_enumerator_reason:
        raise RequestError(
            "the offsets of a Kafka source cannot be printed, because they could not be read",
            operator=offsets.label,
            found=reason,
            advice=Advice(command("inspect"), " lists the offsets of the other sources"),
        )
    positions = dict.fromkeys([*offsets.positions, *offsets.unassigned_positions])
    sorted_positions = sorted(positions, key=lambda position: position.partition)
    return [PrintedOffset(offsets.label, *position.partition, position.next) for position in sorted_positions]


def _json_rows(text: str) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        rows = json.loads(text, object_pairs_hook=_fields_once)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the Kafka offsets are not valid JSON: {error}", advice=_format_advice()) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RequestError(
            "the Kafka offsets are not a list of objects", found=type(rows).__name__, advice=_format_advice()
        )
    for number, row in enumerate(rows, 1):
        yield f"row {number}", row


def _fields_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the fields of a JSON object. Raises `RequestError` if two fields have the same name, which JSON allows."""
    fields: dict[str, object] = {}
    for name, value in pairs:
        if name in fields:
            raise RequestError("a row of the Kafka offsets has a field twice", found=name, advice=_format_advice())
        fields[name] = value
    return fields


def _csv_rows(text: str) -> Iterator[tuple[str, dict[str, object]]]:
    reader = csv.DictReader(io.StringIO(text.strip()), skipinitialspace=True)
    try:
        yield from _full_rows(reader)
    except csv.Error as error:
        raise RequestError(f"the Kafka offsets are not valid CSV: {error}", advice=_format_advice()) from None


def _full_rows(reader: csv.DictReader[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the rows below the line of column names. Raises `RequestError` if that line is missing."""
    _check_fields("the first line", reader.fieldnames or ())
    for row in reader:
        if None in row or None in row.values():
            raise RequestError(
                f"line {reader.line_num} of the Kafka offsets has more or fewer fields than the first line",
                expected=", ".join(reader.fieldnames or ()),
                advice=_format_advice(),
            )
        yield f"line {reader.line_num}", row


def _check_fields(row_label: str, names: Collection[str]) -> None:
    if len({*names}) < len(names) or not {*COLUMNS[1:]} <= {*names} <= {*COLUMNS}:
        raise RequestError(
            f"{row_label} of the Kafka offsets has other fields than expected",
            expected=f"{', '.join(COLUMNS[1:])}, and optionally operator",
            found=", ".join(map(str, names)),
            advice=_format_advice(),
        )


def _parse_row(row_label: str, row: dict[str, object]) -> OffsetRow:
    _check_fields(row_label, row.keys())
    cells = [row.get("operator") or "", *(row[name] for name in COLUMNS[1:])]
    if any(isinstance(value, bool) or not isinstance(value, int | str) for value in cells):
        raise RequestError(
            f"{row_label} of the Kafka offsets has a value that is neither text nor a number",
            found=row,
            advice=_format_advice(),
        )
    operator, topic, partition, offset = (str(value).strip() for value in cells)
    partition_number = None if partition == ALL_PARTITIONS else _parse_number(partition)
    if not topic or (partition_number is None and partition != ALL_PARTITIONS):
        raise RequestError(
            f"{row_label} of the Kafka offsets names no partition",
            expected=f"a topic, and the number of a partition, or {ALL_PARTITIONS} for all",
            found=f"{topic!r}, {partition!r}",
        )
    new_offset = StartAt(offset) if offset in [*StartAt] else _parse_number(offset)
    if offset != DROP_WORD and new_offset is None:
        raise RequestError(
            f"{row_label} of the Kafka offsets has no offset", expected=_EXPECTED_OFFSET, found=repr(offset)
        )
    if partition_number is None and isinstance(new_offset, int):
        raise RequestError(
            f"{row_label} of the Kafka offsets gives all partitions of a topic the same offset",
            expected=f"{', '.join(StartAt)} or {DROP_WORD}",
            found=new_offset,
            advice="give each partition a row of its own, because partitions have different records",
        )
    return OffsetRow(operator, topic, partition_number, new_offset)


def _parse_number(text: str) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LARGEST_OFFSET)) or int(text) > _LARGEST_OFFSET:
        return None
    return int(text)


def _format_advice() -> str:
    return (
        "give a first line such as topic,partition,offset, and a line such as orders,3,1500 for each partition to "
        'change; or a list such as [{"topic": "orders", "partition": 3, "offset": 1500}]'
    )

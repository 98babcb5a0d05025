"""What a request says of Kafka offsets: the rows of a file, in CSV or in JSON, as `rescale inspect` prints them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rescale.errors import RequestError
from rescale.flink.kafka.position import StartAt, is_topic
from rescale.snapshot.kafka.offsets import KafkaOffsets

DROP = "drop"
"""In the place of an offset: the partition is left out."""
ALL = "*"
"""In the place of a partition's number: all that are there of the topic."""

COLUMNS = ("operator", "topic", "partition", "offset")
FORMS = ("csv", "json")
_EXPECTED = f"an offset, {', '.join(StartAt)}, or {DROP}"
_MOST = (1 << 63) - 1


class OffsetRow(NamedTuple):
    """`operator` is "" for every Kafka source that has the partition; `partition` None for all of the topic.

    `offset` is that of the next record to read, None if the partition is left out.
    """

    operator: str
    topic: str
    partition: int | None
    offset: int | StartAt | None


@dataclass(frozen=True)
class KafkaWords:
    """What is asked for of the Kafka sources of a snapshot; `topics` maps topics to their new names.

    `sources` maps each `FlinkKafkaConsumer` that becomes a `KafkaSource` to its new uid or id, "" if that stays.
    """

    offsets: tuple[OffsetRow, ...] = ()
    topics: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.offsets or self.topics or self.sources)

    def with_renames(self, renames: Mapping[str, str]) -> dict[str, str]:
        """The new names of operators, and of those that become a `KafkaSource`; `RequestError` if one is in both."""
        if both := sorted(renames.keys() & self.sources.keys()):
            raise RequestError(
                "an operator becomes a KafkaSource, and is renamed by another option, too",
                found=both[0],
                advice="give its new name once: --kafka-source OLD=NEW",
            )
        return {**renames, **{old: new for old, new in self.sources.items() if new}}


NO_KAFKA_WORDS = KafkaWords()


def parse_offsets(text: str) -> tuple[OffsetRow, ...]:
    """The rows of a file; empty if there is nothing in it. `RequestError` names the row that makes no sense."""
    if not text.strip():
        return ()
    rows = list(_json_rows(text) if text.lstrip()[0] in "[{" else _csv_rows(text))
    parsed = tuple(_row(which, row) for which, row in rows)
    seen: set[OffsetRow] = set()
    for (which, _), row in zip(rows, parsed, strict=True):
        place = row._replace(offset=None)
        if place in seen:
            raise RequestError(
                f"{which} of the Kafka offsets names a partition once more",
                found=f"{row.topic} {ALL if row.partition is None else row.partition}",
                advice="give one offset for each partition: leave the other row out",
            )
        seen.add(place)
    return parsed


def parse_topics(words: Iterable[str]) -> dict[str, str]:
    """`OLD=NEW`, as a mapping from the one name to the other."""
    topics: dict[str, str] = {}
    for word in words:
        old, _, new = word.partition("=")
        if not is_topic(old) or not is_topic(new) or old == new:
            raise RequestError(
                f"not a new name of a topic: {word!r}",
                expected="OLD=NEW, two names of 1 to 249 letters, digits, dots, dashes or underscores",
                found=word,
            )
        if old in topics:
            raise RequestError(f"the new name of the topic {old!r} is given twice", found=word)
        topics[old] = new
    return topics


def parse_sources(words: Iterable[str]) -> dict[str, str]:
    """`OLD=NEW`, or `OLD` where the name stays, as a mapping from the one to the other, "" if it stays."""
    sources: dict[str, str] = {}
    for word in words:
        old, equals, new = word.partition("=")
        if not old or (equals and not new):
            raise RequestError(
                f"not an operator that becomes a KafkaSource: {word!r}",
                expected="OLD=NEW, each a uid or an operator id, or OLD if the name stays",
                found=word,
            )
        if old in sources:
            raise RequestError(f"the operator {old!r} becomes a KafkaSource twice", found=word)
        sources[old] = "" if new == old else new
    return sources


def offsets_text(kafka: Iterable[KafkaOffsets], form: str) -> str:
    """Every position as a row, in `csv` or `json`: what `parse_offsets` reads. `RequestError` if one was not read."""
    rows = [row for offsets in kafka for row in _rows_of(offsets)]
    if form == "json":
        return json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows], indent=2)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([COLUMNS, *rows])
    return out.getvalue().rstrip("\n")


def _rows_of(offsets: KafkaOffsets) -> list[tuple[str, str, int, int | str]]:
    if why := offsets.unread or offsets.unread_enumerator:
        raise RequestError(
            "the offsets of a Kafka source were not read, and cannot be written down",
            operator=offsets.label,
            found=why,
            advice="rescale inspect lists those of the others",
        )
    positions = dict.fromkeys([*offsets.held, *offsets.waiting])
    return [(offsets.label, *one.partition, one.next) for one in sorted(positions, key=lambda one: one.partition)]


def _json_rows(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        rows = json.loads(text, object_pairs_hook=_named_once)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the Kafka offsets are no JSON: {error}", advice=_advice()) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RequestError("the Kafka offsets are no list of objects", found=type(rows).__name__, advice=_advice())
    for number, row in enumerate(rows, 1):
        yield f"row {number}", row


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object, of which JSON lets two have one name."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise RequestError("a row of the Kafka offsets has a field twice", found=name, advice=_advice())
        fields[name] = value
    return fields


def _csv_rows(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text.strip()), skipinitialspace=True)
    try:
        yield from _full_rows(reader)
    except csv.Error as error:
        raise RequestError(f"the Kafka offsets are no CSV: {error}", advice=_advice()) from None


def _full_rows(reader: csv.DictReader[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A first line that is a row already would be taken for names, and its offset never be asked for."""
    _check_fields("the first line", reader.fieldnames or ())
    for row in reader:
        if None in row or None in row.values():
            raise RequestError(
                f"line {reader.line_num} of the Kafka offsets has not as many fields as the first line",
                expected=", ".join(reader.fieldnames or ()),
                advice=_advice(),
            )
        yield f"line {reader.line_num}", row


def _check_fields(which: str, names: Collection[str]) -> None:
    if len({*names}) < len(names) or not {*COLUMNS[1:]} <= {*names} <= {*COLUMNS}:
        raise RequestError(
            f"{which} of the Kafka offsets has other fields",
            expected=f"{', '.join(COLUMNS[1:])}, and maybe operator",
            found=", ".join(map(str, names)),
            advice=_advice(),
        )


def _row(which: str, row: dict[str, Any]) -> OffsetRow:
    _check_fields(which, row.keys())
    values = [row.get("operator") or "", *(row[name] for name in COLUMNS[1:])]
    if any(isinstance(value, bool) or not isinstance(value, int | str) for value in values):
        raise RequestError(f"{which} of the Kafka offsets is neither text nor numbers", found=row, advice=_advice())
    operator, topic, partition, offset = (str(value).strip() for value in values)
    number = None if partition == ALL else _number(partition)
    if not topic or (number is None and partition != ALL):
        raise RequestError(
            f"{which} of the Kafka offsets names no partition",
            expected=f"a topic, and the number of a partition, or {ALL} for all",
            found=f"{topic!r}, {partition!r}",
        )
    start = _offset(offset)
    if offset != DROP and start is None:
        raise RequestError(f"{which} of the Kafka offsets has no offset", expected=_EXPECTED, found=repr(offset))
    if number is None and isinstance(start, int):
        raise RequestError(
            f"{which} of the Kafka offsets gives one offset to all partitions of a topic",
            expected=f"a word: {', '.join(StartAt)} or {DROP}",
            found=start,
            advice="give each partition a row of its own: no two of them have the same records",
        )
    return OffsetRow(operator, topic, number, start)


def _offset(word: str) -> int | StartAt | None:
    return StartAt(word) if word in [*StartAt] else _number(word)


def _number(word: str) -> int | None:
    if not word.isascii() or not word.isdigit() or len(word) > len(str(_MOST)) or int(word) > _MOST:
        return None
    return int(word)


def _advice() -> str:
    return (
        "give a first line such as topic,partition,offset, and then a line such as orders,3,1500 for each partition "
        'that shall be read from elsewhere; or a list such as [{"topic": "orders", "partition": 3, "offset": 1500}]'
    )

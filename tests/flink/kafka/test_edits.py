"""Edited positions in splits, union elements and enumerator states: all other bytes stay the same."""

from __future__ import annotations

import pytest

from rescale.flink.kafka.consumer import read_consumer_element
from rescale.flink.kafka.edited_consumer import edited_consumer_element
from rescale.flink.kafka.edited_source import edited_coordinator, edited_reader_element
from rescale.flink.kafka.position import Position, StartAt, TopicPartition
from support.kafka_state import NO_STOP, consumer_element, enumerator, reader_element, split, versioned
from support.snapshot_bytes import i32, utf

FIRST = TopicPartition("orders", 0)


def as_it_is(position: Position) -> Position:
    return position


def nothing(_: Position) -> None:
    return None


def moved(position: Position) -> Position | None:
    """Let partition 0 be read from offset 7 on, and leave partition 1 out."""
    if position.partition.partition == 1:
        return None
    return position._replace(next=7) if position.partition == FIRST else position


@pytest.mark.parametrize(("offset", "word"), [(7, 7), (-1, "latest"), (-2, "earliest"), (-3, "committed")])
def test_offset_of_a_split_is_edited(offset: int, word: int | str) -> None:
    new = word if isinstance(word, int) else StartAt(word)
    element = reader_element("orders", 0, 41, 90)
    assert edited_reader_element(element, lambda split: split._replace(next=new)) == reader_element(
        "orders", 0, offset, 90
    )
    assert edited_reader_element(element, as_it_is) is element
    assert edited_reader_element(element, nothing) is None


@pytest.mark.parametrize("topic", ["x", "ab", "a" * 62, "b" * 63, "c" * 64, "d" * 130, "e" * 249, "clicks.v2_eu-1"])
@pytest.mark.parametrize("partition", [0, 64, 8191, 100_000])
def test_consumer_element_is_edited_and_keeps_its_class_id(topic: str, partition: int) -> None:
    element = consumer_element("orders", 3, 5, class_id=0x61)
    new = Position(TopicPartition(topic, partition), 124)
    new_element = edited_consumer_element(element, lambda _: new)
    assert new_element == consumer_element(topic, partition, 123, class_id=0x61)
    assert edited_consumer_element(element, as_it_is) is element
    assert edited_consumer_element(element, nothing) is None


@pytest.mark.parametrize(
    ("following", "last"),
    [(0, -1), ("earliest", -915623761775), ("latest", -915623761774), ("committed", -915623761773)],
)
def test_consumer_element_stores_the_offset_before_the_next(following: int | str, last: int) -> None:
    new = following if isinstance(following, int) else StartAt(following)
    new_element = edited_consumer_element(
        consumer_element("orders", 0, 9), lambda position: position._replace(next=new)
    )
    assert new_element == consumer_element("orders", 0, last)
    assert read_consumer_element(new_element).next == new


def test_enumerator_state_of_every_version_is_edited() -> None:
    def named(*partitions: int, status: int | None = None) -> bytes:
        status_bytes = b"" if status is None else i32(status)
        return i32(len(partitions)) + b"".join(
            utf("orders") + i32(partition) + status_bytes for partition in partitions
        )

    def sized(partition: int, offset: int) -> bytes:
        data = split("orders", partition, offset)
        return i32(len(data)) + data

    books = [
        (
            i32(0, 2, 0, 2) + sized(0, 3) + sized(2, 5) + i32(1, 1) + sized(1, 4),
            i32(0, 2, 0, 2) + sized(0, 7) + sized(2, 5) + i32(1, 0),
        ),
        (named(0, 1, 2), named(0, 2)),
        (named(0, 1, 2, status=1) + b"\0", named(0, 2, status=1) + b"\0"),
        (
            i32(3, 0) + sized(0, 3) + i32(0) + sized(1, NO_STOP) + i32(1) + sized(2, 5) + i32(1) + b"\1",
            i32(2, 0) + sized(0, 7) + i32(0) + sized(2, 5) + i32(1) + b"\1",
        ),
    ]
    for version, (before, after) in enumerate(books):
        old, new = (i32(1) + versioned(version, state) for state in (before, after))
        assert edited_coordinator(old, as_it_is) == old
        assert edited_coordinator(old, moved) == new
    assert edited_coordinator(enumerator([("orders", 0, 0)]), nothing) == enumerator([])

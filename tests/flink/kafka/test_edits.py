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


def keep_position(position: Position) -> Position:
    return position


def drop_position(_: Position) -> None:
    return None


def move_or_drop(position: Position) -> Position | None:
    """Let partition 0 be read from offset 7 on, and leave partition 1 out."""
    if position.partition.partition == 1:
        return None
    return position._replace(next=7) if position.partition == FIRST else position


@pytest.mark.parametrize(("offset", "next_offset"), [(7, 7), (-1, "latest"), (-2, "earliest"), (-3, "committed")])
def test_offset_of_a_split_is_edited(offset: int, next_offset: int | str) -> None:
    new_next = next_offset if isinstance(next_offset, int) else StartAt(next_offset)
    element = reader_element("orders", 0, 41, 90)
    assert edited_reader_element(element, lambda split: split._replace(next=new_next)) == reader_element(
        "orders", 0, offset, 90
    )
    assert edited_reader_element(element, keep_position) is element
    assert edited_reader_element(element, drop_position) is None


@pytest.mark.parametrize("topic", ["x", "ab", "a" * 62, "b" * 63, "c" * 64, "d" * 130, "e" * 249, "clicks.v2_eu-1"])
@pytest.mark.parametrize("partition", [0, 64, 8191, 100_000])
def test_consumer_element_is_edited_and_keeps_its_class_id(topic: str, partition: int) -> None:
    element = consumer_element("orders", 3, 5, class_id=0x61)
    new_position = Position(TopicPartition(topic, partition), 124)
    new_element = edited_consumer_element(element, lambda _: new_position)
    assert new_element == consumer_element(topic, partition, 123, class_id=0x61)
    assert edited_consumer_element(element, keep_position) is element
    assert edited_consumer_element(element, drop_position) is None


@pytest.mark.parametrize(
    ("next_offset", "last_offset"),
    [(0, -1), ("earliest", -915623761775), ("latest", -915623761774), ("committed", -915623761773)],
)
def test_consumer_element_stores_the_offset_before_the_next(next_offset: int | str, last_offset: int) -> None:
    new_next = next_offset if isinstance(next_offset, int) else StartAt(next_offset)
    new_element = edited_consumer_element(
        consumer_element("orders", 0, 9), lambda position: position._replace(next=new_next)
    )
    assert new_element == consumer_element("orders", 0, last_offset)
    assert read_consumer_element(new_element).next == new_next


def test_enumerator_state_of_every_version_is_edited() -> None:
    def partition_list(*partitions: int, status: int | None = None) -> bytes:
        status_bytes = b"" if status is None else i32(status)
        return i32(len(partitions)) + b"".join(
            utf("orders") + i32(partition) + status_bytes for partition in partitions
        )

    def sized_split(partition: int, offset: int) -> bytes:
        data = split("orders", partition, offset)
        return i32(len(data)) + data

    states_by_version = [
        (
            i32(0, 2, 0, 2) + sized_split(0, 3) + sized_split(2, 5) + i32(1, 1) + sized_split(1, 4),
            i32(0, 2, 0, 2) + sized_split(0, 7) + sized_split(2, 5) + i32(1, 0),
        ),
        (partition_list(0, 1, 2), partition_list(0, 2)),
        (partition_list(0, 1, 2, status=1) + b"\0", partition_list(0, 2, status=1) + b"\0"),
        (
            i32(3, 0)
            + sized_split(0, 3)
            + i32(0)
            + sized_split(1, NO_STOP)
            + i32(1)
            + sized_split(2, 5)
            + i32(1)
            + b"\1",
            i32(2, 0) + sized_split(0, 7) + i32(0) + sized_split(2, 5) + i32(1) + b"\1",
        ),
    ]
    for version, (before, after) in enumerate(states_by_version):
        old, new = (i32(1) + versioned(version, state) for state in (before, after))
        assert edited_coordinator(old, keep_position) == old
        assert edited_coordinator(old, move_or_drop) == new
    assert edited_coordinator(enumerator([("orders", 0, 0)]), drop_position) == enumerator([])

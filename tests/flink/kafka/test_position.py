"""Kafka offsets in the bytes of each version of the connectors."""

from __future__ import annotations

import pytest

from rescale.flink.kafka.consumer import read_consumer_element
from rescale.flink.kafka.position import Position, StartAt, TopicPartition, owning_subtask
from rescale.flink.kafka.source import (
    EnumeratorState,
    UnknownVersionError,
    read_enumerator,
    read_reader_element,
    read_split,
)
from rescale.text.errors import SnapshotError
from support.kafka_state import NO_STOP, consumer_element, enumerator, reader_element, split, versioned
from support.snapshot_bytes import i32, utf

ORDERS = [TopicPartition("orders", partition) for partition in range(3)]


@pytest.mark.parametrize(
    ("topic", "parallelism", "owners"),
    [
        ("orders", 3, [0, 1, 2, 0, 1, 2]),
        ("orders", 4, [3, 0, 1, 2, 3, 0]),
        ("clicks", 4, [1, 2, 3, 0, 1, 2]),
        ("events", 3, [2, 0, 1, 2, 0, 1]),
    ],
)
def test_partitions_are_assigned_round_robin_from_the_subtask_of_their_topic(
    topic: str, parallelism: int, owners: list[int]
) -> None:
    assert [owning_subtask(topic, partition, parallelism) for partition in range(6)] == owners


@pytest.mark.parametrize(
    ("offset", "stop_offset", "next_and_stop"),
    [
        (41, NO_STOP, (41, None)),
        (0, 90, (0, 90)),
        (-1, NO_STOP, (StartAt.LATEST, None)),
        (-2, -1, (StartAt.EARLIEST, StartAt.LATEST)),
        (-3, NO_STOP, (StartAt.COMMITTED, None)),
        (NO_STOP, NO_STOP, (StartAt.UNSET, None)),
    ],
)
def test_split_is_read_with_its_next_and_stop_offsets(
    offset: int, stop_offset: int, next_and_stop: tuple[int | StartAt, int | StartAt | None]
) -> None:
    element = reader_element("orders", 2, offset, stop_offset)
    assert read_split(read_reader_element(element)) == Position(ORDERS[2], *next_and_stop)


def test_enumerator_state_of_every_version_is_read() -> None:
    splits = [split("orders", partition, 7 * partition) for partition in range(3)]
    partition_entries = [utf("orders") + i32(partition) for partition in range(3)]
    sized_splits = [i32(len(split)) + split for split in splits]
    by_subtask = i32(0, 2, 0, 2) + sized_splits[0] + sized_splits[2] + i32(1, 1) + sized_splits[1]
    cases = [
        (by_subtask, EnumeratorState((ORDERS[0], ORDERS[2], ORDERS[1]), ())),
        (i32(3) + b"".join(partition_entries), EnumeratorState(tuple(ORDERS), ())),
        (
            i32(3)
            + partition_entries[0]
            + i32(0)
            + partition_entries[1]
            + i32(1)
            + partition_entries[2]
            + i32(0)
            + b"\1",
            EnumeratorState((ORDERS[0], ORDERS[2]), (Position(ORDERS[1], StartAt.UNSET),)),
        ),
        (
            i32(3, 0) + sized_splits[0] + i32(0) + sized_splits[1] + i32(1) + sized_splits[2] + i32(0) + b"\0",
            EnumeratorState((ORDERS[0], ORDERS[2]), (Position(ORDERS[1], 7),)),
        ),
    ]
    for version, (state, expected) in enumerate(cases):
        enumerator = read_enumerator(i32(1) + versioned(version, state))
        assert enumerator == expected
        assert enumerator.partitions == set(ORDERS)
        for damaged_state in (state + b"\0", state[:-1]):
            with pytest.raises(SnapshotError):
                read_enumerator(i32(1) + versioned(version, damaged_state))


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(UnknownVersionError, match="version 4 of KafkaSourceEnumStateSerializer"):
        read_enumerator(i32(1) + versioned(4, b""))
    with pytest.raises(UnknownVersionError, match="version 0 of SourceCoordinatorSerdeUtils"):
        read_enumerator(i32(0) + versioned(2, b""))
    with pytest.raises(UnknownVersionError, match="version 1 of KafkaPartitionSplitSerializer"):
        read_split(read_reader_element(reader_element("orders", 0, 5, version=1)))


@pytest.mark.parametrize(
    "damaged_state",
    [
        enumerator([("orders", 0, 2)]),
        enumerator([("orders", -1, 0)]),
        enumerator([("or/ders", 0, 0)]),
        enumerator([("o" * 250, 0, 0)]),
        enumerator([("orders", 0, 0)]) + b"\0",
        i32(1) + versioned(2, i32(2**31 - 1)),
    ],
)
def test_damaged_enumerator_state_is_refused(damaged_state: bytes) -> None:
    with pytest.raises(SnapshotError):
        read_enumerator(damaged_state)


def test_consumer_element_is_read() -> None:
    element = bytes.fromhex("57 01 89 99 98 ff 08 00 01 6f 72 64 65 72 f3 00 00 00 00 07 5b cd 15")
    assert element == consumer_element("orders", 0, 123456789)
    assert read_consumer_element(element) == Position(ORDERS[0], 123456790)


@pytest.mark.parametrize("topic", ["x", "ab", "a" * 62, "b" * 63, "c" * 64, "d" * 130, "e" * 249, "clicks.v2_eu-1"])
@pytest.mark.parametrize("partition", [0, 1, 63, 64, 8191, 100_000])
def test_consumer_element_of_any_topic_is_read(topic: str, partition: int) -> None:
    position = read_consumer_element(consumer_element(topic, partition, 5))
    assert position == Position(TopicPartition(topic, partition), 6)


@pytest.mark.parametrize(
    ("last_offset", "next_offset"),
    [
        (-1, 0),
        (-915623761776, StartAt.UNSET),
        (-915623761775, StartAt.EARLIEST),
        (-915623761774, StartAt.LATEST),
        (-915623761773, StartAt.COMMITTED),
    ],
)
def test_next_offset_follows_the_last_offset_of_the_consumer(last_offset: int, next_offset: int | StartAt) -> None:
    assert read_consumer_element(consumer_element("orders", 1, last_offset)).next == next_offset


def test_damaged_elements_are_refused() -> None:
    for element, read in (
        (reader_element("orders", 3, 700), lambda data: read_split(read_reader_element(data))),
        (consumer_element("orders", 3, 700), read_consumer_element),
    ):
        for length in range(len(element)):
            with pytest.raises(SnapshotError):
                read(element[:length])
        with pytest.raises(SnapshotError):
            read(element + b"\0")
    with pytest.raises(SnapshotError, match="its cachedHash is wrong"):
        read_consumer_element(consumer_element("orders", 3, 700).replace(b"rder", b"rdar"))

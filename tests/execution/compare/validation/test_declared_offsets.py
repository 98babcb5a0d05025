"""Kafka offsets of a result are the declared ones, and all others the source's. The positions are made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from rescale.execution.compare.validation import declared_offsets
from rescale.execution.compare.validation.declared_offsets import check_offsets
from rescale.flink.kafka.position import Position, StartAt, TopicPartition
from rescale.flink.kafka.source import EnumeratorState
from rescale.flink.operator_id import operator_id_of_uid
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import Renamed, Surgery
from rescale.text.errors import IntegrityError
from support.synthetic import operator, snapshot

UNSET, EARLIEST = StartAt.UNSET, StartAt.EARLIEST


def position_at(partition: int, next_offset: int | StartAt = UNSET, topic: str = "orders") -> Position:
    return Position(TopicPartition(topic, partition), next_offset)


def source_offsets(
    held: Sequence[Position], waiting: Sequence[Position] = (), assigned: Sequence[int] = (), uid: str = "orders"
) -> KafkaOffsets:
    """Return the offsets of a `KafkaSource`."""
    enumerator = EnumeratorState(tuple(TopicPartition("orders", partition) for partition in assigned), tuple(waiting))
    return KafkaOffsets(operator(uid), KafkaKind.SOURCE, tuple(held), enumerator=enumerator)


def consumer_offsets(*held: Position) -> KafkaOffsets:
    return KafkaOffsets(operator("orders"), KafkaKind.CONSUMER, held)


SOURCE = source_offsets(
    [position_at(0, 0), position_at(1, 10), position_at(2, 20)], [position_at(3), position_at(5, 50)], [0, 1, 2, 4]
)


class OffsetsByDirectory:
    """Kafka offsets by the directory of the snapshot that they are read from."""

    def __init__(self) -> None:
        self.read_directories: list[str] = []
        self.by_directory: dict[str, Sequence[KafkaOffsets]] = {}

    def offsets(self, of: Snapshot) -> tuple[KafkaOffsets, ...]:
        self.read_directories.append(of.directory)
        return tuple(self.by_directory[of.directory])

    def check(
        self,
        old: KafkaOffsets | None,
        new: KafkaOffsets | None,
        *partitions: ChangedPartition,
        becomes_source: bool = False,
        renamed: Sequence[Renamed] = (),
    ) -> None:
        """Check the offsets of one source, which stands between two others."""
        neighbours = [source_offsets([position_at(0, 9)], uid=uid) for uid in ("a", "z")]
        for side, offsets in (("source", old), ("result", new)):
            self.by_directory[side] = [neighbours[0], *([offsets] if offsets else []), neighbours[1]]
        change = KafkaChange(operator_id_of_uid("orders"), "orders", "", partitions, becomes_source)
        surgery = Surgery(kafka=(change,), renamed=tuple(renamed))
        check_offsets(snapshot(directory="source"), snapshot(directory="result"), surgery)


@pytest.fixture
def by_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[OffsetsByDirectory]:
    fake = OffsetsByDirectory()
    monkeypatch.setattr(declared_offsets, "kafka_offsets", fake.offsets)
    return fake


def changed_partition(partition: int, now: int | StartAt | None, new: int | StartAt | None = None) -> ChangedPartition:
    return ChangedPartition("orders", partition, now, new)


def test_no_offsets_are_read_if_none_are_declared(by_directory: OffsetsByDirectory) -> None:
    check_offsets(snapshot(directory="source"), snapshot(directory="result"), Surgery())
    assert by_directory.read_directories == []


def test_declared_offsets_are_in_the_result_and_all_others_unchanged(by_directory: OffsetsByDirectory) -> None:
    """The partitions are held by readers, wait with an offset or without one, or are assigned but held by no reader."""
    held, waiting = (
        [position_at(2, 20), position_at(0, 5), position_at(1, EARLIEST)],
        [position_at(5, 51), position_at(3, 30)],
    )
    declared = (
        changed_partition(0, 0, 5),
        changed_partition(1, 10, EARLIEST),
        changed_partition(5, 50, 51),
        changed_partition(3, None, 30),
    )
    by_directory.check(SOURCE, source_offsets(held, waiting, [4, 2, 1, 0]), *declared, changed_partition(4, None, 40))
    assert sorted(by_directory.read_directories) == ["result", "source"]


def test_offsets_of_renamed_operator_are_compared_by_its_new_id(by_directory: OffsetsByDirectory) -> None:
    renamed = Renamed(operator_id_of_uid("orders"), "orders", operator_id_of_uid("bills"), "bills", "bills")
    renamed_offsets = replace(SOURCE, operator=operator("bills"))
    by_directory.check(SOURCE, renamed_offsets, renamed=[renamed])
    for new in (None, SOURCE):
        with pytest.raises(IntegrityError, match="the Kafka partitions held by readers are not"):
            by_directory.check(SOURCE, new, renamed=[renamed])


def test_dropped_partitions_are_neither_with_readers_nor_in_the_enumerator(by_directory: OffsetsByDirectory) -> None:
    drops = (
        ChangedPartition("orders", 1, 10, None, dropped=True),
        ChangedPartition("orders", 5, 50, None, dropped=True),
    )
    by_directory.check(
        SOURCE, source_offsets([position_at(0, 0), position_at(2, 20)], [position_at(3)], [0, 2, 4]), *drops
    )
    with pytest.raises(IntegrityError, match="the Kafka partitions held by readers are not"):
        by_directory.check(SOURCE, SOURCE, *drops)


def test_operator_left_without_partitions_need_not_be_recognised_as_kafka_source(
    by_directory: OffsetsByDirectory,
) -> None:
    dropped_partitions = [
        ChangedPartition("orders", partition, 10 * partition, None, dropped=True) for partition in range(2)
    ]
    by_directory.check(source_offsets([position_at(0, 0), position_at(1, 10)], [], [0, 1]), None, *dropped_partitions)
    by_directory.check(None, None)
    with pytest.raises(IntegrityError, match="the Kafka partitions held by readers are not") as caught:
        by_directory.check(None, source_offsets([position_at(0, 0)]))
    assert (caught.value.operator, caught.value.expected, caught.value.found) == ("orders", "none", "orders-0 from 0")


@pytest.mark.parametrize(
    ("partition_kind", "new"),
    [
        (
            "held by readers",
            source_offsets(
                [position_at(0, 0), position_at(1, 10), position_at(2, 21)], SOURCE.enumerator.unassigned, [0, 1, 2, 4]
            ),
        ),
        (
            "held by readers",
            source_offsets([position_at(0, 0), position_at(1, 10)], SOURCE.enumerator.unassigned, [0, 1, 2, 4]),
        ),
        (
            "held by readers",
            source_offsets([*SOURCE.positions, position_at(2, 20)], SOURCE.enumerator.unassigned, [0, 1, 2, 4]),
        ),
        ("held by readers", consumer_offsets(position_at(0, 0), position_at(1, 10), position_at(2, 21))),
        ("waiting in the enumerator", source_offsets(SOURCE.positions, [position_at(3)], [0, 1, 2, 4])),
        (
            "waiting in the enumerator",
            source_offsets(SOURCE.positions, [position_at(3), position_at(5, 50), position_at(5, 50)], [0, 1, 2, 4]),
        ),
        (
            "waiting in the enumerator",
            source_offsets(SOURCE.positions, [position_at(3, 1), position_at(5, 50)], [0, 1, 2, 4]),
        ),
        ("waiting in the enumerator", consumer_offsets(*SOURCE.positions)),
        ("assigned", source_offsets(SOURCE.positions, SOURCE.enumerator.unassigned, [0, 1, 2])),
        ("assigned", source_offsets(SOURCE.positions, SOURCE.enumerator.unassigned, [0, 1, 2, 4, 4])),
    ],
)
def test_undeclared_positions_are_found(
    partition_kind: str, new: KafkaOffsets, by_directory: OffsetsByDirectory
) -> None:
    """A position that is stored twice counts as a difference."""
    with pytest.raises(
        IntegrityError, match=f"the Kafka partitions {partition_kind} are not the declared ones"
    ) as caught:
        by_directory.check(SOURCE, new)
    assert caught.value.operator == "orders"


@pytest.mark.parametrize(
    ("change", "found_text"),
    [
        (changed_partition(0, 1, 5), "orders-0 from 0"),
        (changed_partition(2, EARLIEST, 5), "orders-2 from 20"),
        (changed_partition(3, 30, 5), "orders-3 from unset"),
        (changed_partition(4, 40, 5), "none"),
        (changed_partition(5, 51, 5), "orders-5 from 50"),
        (changed_partition(6, 60, 5), "none"),
        (changed_partition(6, None, 5), "none"),
        (changed_partition(2, None, 5), "orders-2 from 20"),
        (changed_partition(5, None, 5), "orders-5 from 50"),
        (ChangedPartition("bills", 0, 0, 5), "none"),
        (ChangedPartition("bills", 0, None, 5), "none"),
    ],
)
def test_declared_present_offset_that_is_not_the_sources_is_refused(
    change: ChangedPartition, found_text: str, by_directory: OffsetsByDirectory
) -> None:
    with pytest.raises(IntegrityError, match="does not have a Kafka offset that was declared as changed") as caught:
        by_directory.check(SOURCE, SOURCE, changed_partition(1, 10), change)
    expected = f"{change.topic}-{change.partition} from {change.next}"
    assert (caught.value.operator, caught.value.expected, caught.value.found) == ("orders", expected, found_text)


def test_partition_without_offset_may_be_declared_as_having_none(by_directory: OffsetsByDirectory) -> None:
    """Such a partition waits for the job's starting offsets, or is assigned to a reader that does not hold it.

    A partition that is stored with and without an offset may not be declared as having none.
    """
    by_directory.check(SOURCE, SOURCE, changed_partition(3, None), changed_partition(4, None))
    by_directory.check(SOURCE, SOURCE, changed_partition(3, UNSET))
    for twice in (
        source_offsets([position_at(0), position_at(0, 7)]),
        source_offsets([position_at(0)], [position_at(0, 7)]),
    ):
        by_directory.check(twice, twice, changed_partition(0, UNSET))
        with pytest.raises(IntegrityError, match="does not have a Kafka offset that was declared as changed"):
            by_directory.check(twice, twice, changed_partition(0, None))


def test_consumer_that_becomes_a_source_has_assigned_the_partitions_it_holds(by_directory: OffsetsByDirectory) -> None:
    """The union state of the consumer may hold a partition more than once."""
    old = consumer_offsets(position_at(0, 0), position_at(1, 10), position_at(0, 0), position_at(2, 20))
    held_after = [position_at(0, 5), position_at(1, 10)]
    declared = (changed_partition(0, 0, 5), ChangedPartition("orders", 2, 20, None, dropped=True))
    by_directory.check(old, source_offsets(held_after, [], [0, 1]), *declared, becomes_source=True)
    for held, assigned in ((held_after, [0]), (held_after, [0, 1, 2]), ([*held_after, position_at(0, 5)], [0, 1])):
        with pytest.raises(IntegrityError, match="are not the declared ones"):
            by_directory.check(old, source_offsets(held, [], assigned), *declared, becomes_source=True)
    with pytest.raises(IntegrityError, match="the Kafka partitions assigned are not"):
        by_directory.check(old, consumer_offsets(*held_after), *declared, becomes_source=True)
    by_directory.check(old, consumer_offsets(position_at(0, 5), position_at(1, 10), position_at(0, 5)), *declared)


def test_first_five_differing_partitions_are_named_in_order(by_directory: OffsetsByDirectory) -> None:
    old, new = (
        source_offsets([position_at(partition, 10 * partition + shift) for partition in range(9, 2, -1)])
        for shift in (0, 1)
    )
    with pytest.raises(IntegrityError) as caught:
        by_directory.check(old, new)
    for listed_partitions, shift in ((caught.value.expected, 0), (caught.value.found, 1)):
        assert listed_partitions == ", ".join(
            f"orders-{partition} from {10 * partition + shift}" for partition in range(3, 8)
        )

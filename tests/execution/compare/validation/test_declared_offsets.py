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


def at(partition: int, following: int | StartAt = UNSET, topic: str = "orders") -> Position:
    return Position(TopicPartition(topic, partition), following)


def source_of(
    held: Sequence[Position], waiting: Sequence[Position] = (), assigned: Sequence[int] = (), uid: str = "orders"
) -> KafkaOffsets:
    """Return the offsets of a `KafkaSource`."""
    book = EnumeratorState(tuple(TopicPartition("orders", partition) for partition in assigned), tuple(waiting))
    return KafkaOffsets(operator(uid), KafkaKind.SOURCE, tuple(held), enumerator=book)


def consumer_of(*held: Position) -> KafkaOffsets:
    return KafkaOffsets(operator("orders"), KafkaKind.CONSUMER, held)


SOURCE = source_of([at(0, 0), at(1, 10), at(2, 20)], [at(3), at(5, 50)], [0, 1, 2, 4])


class OffsetsByDirectory:
    """Kafka offsets by the directory of the snapshot that they are read from."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.by_directory: dict[str, Sequence[KafkaOffsets]] = {}

    def offsets(self, of: Snapshot) -> tuple[KafkaOffsets, ...]:
        self.read.append(of.directory)
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
        others = [source_of([at(0, 9)], uid=uid) for uid in ("a", "z")]
        for side, offsets in (("source", old), ("result", new)):
            self.by_directory[side] = [others[0], *([offsets] if offsets else []), others[1]]
        change = KafkaChange(operator_id_of_uid("orders"), "orders", "", partitions, becomes_source)
        surgery = Surgery(kafka=(change,), renamed=tuple(renamed))
        check_offsets(snapshot(directory="source"), snapshot(directory="result"), surgery)


@pytest.fixture
def by_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[OffsetsByDirectory]:
    fake = OffsetsByDirectory()
    monkeypatch.setattr(declared_offsets, "kafka_offsets", fake.offsets)
    return fake


def changed(partition: int, now: int | StartAt | None, new: int | StartAt | None = None) -> ChangedPartition:
    return ChangedPartition("orders", partition, now, new)


def test_no_offsets_are_read_if_none_are_declared(by_directory: OffsetsByDirectory) -> None:
    check_offsets(snapshot(directory="source"), snapshot(directory="result"), Surgery())
    assert by_directory.read == []


def test_declared_offsets_are_in_the_result_and_all_others_unchanged(by_directory: OffsetsByDirectory) -> None:
    """The partitions are held by readers, wait with an offset or without one, or are assigned but held by no reader."""
    held, waiting = [at(2, 20), at(0, 5), at(1, EARLIEST)], [at(5, 51), at(3, 30)]
    declared = (changed(0, 0, 5), changed(1, 10, EARLIEST), changed(5, 50, 51), changed(3, None, 30))
    by_directory.check(SOURCE, source_of(held, waiting, [4, 2, 1, 0]), *declared, changed(4, None, 40))
    assert sorted(by_directory.read) == ["result", "source"]


def test_offsets_of_renamed_operator_are_compared_by_its_new_id(by_directory: OffsetsByDirectory) -> None:
    renamed = Renamed(operator_id_of_uid("orders"), "orders", operator_id_of_uid("bills"), "bills", "bills")
    moved = replace(SOURCE, operator=operator("bills"))
    by_directory.check(SOURCE, moved, renamed=[renamed])
    for new in (None, SOURCE):
        with pytest.raises(IntegrityError, match="the Kafka partitions held by readers are not"):
            by_directory.check(SOURCE, new, renamed=[renamed])


def test_dropped_partitions_are_neither_with_readers_nor_in_the_enumerator(by_directory: OffsetsByDirectory) -> None:
    drops = (
        ChangedPartition("orders", 1, 10, None, dropped=True),
        ChangedPartition("orders", 5, 50, None, dropped=True),
    )
    by_directory.check(SOURCE, source_of([at(0, 0), at(2, 20)], [at(3)], [0, 2, 4]), *drops)
    with pytest.raises(IntegrityError, match="the Kafka partitions held by readers are not"):
        by_directory.check(SOURCE, SOURCE, *drops)


def test_operator_left_without_partitions_need_not_be_recognised_as_kafka_source(
    by_directory: OffsetsByDirectory,
) -> None:
    nothing = [ChangedPartition("orders", partition, 10 * partition, None, dropped=True) for partition in range(2)]
    by_directory.check(source_of([at(0, 0), at(1, 10)], [], [0, 1]), None, *nothing)
    by_directory.check(None, None)
    with pytest.raises(IntegrityError, match="the Kafka partitions held by readers are not") as caught:
        by_directory.check(None, source_of([at(0, 0)]))
    assert (caught.value.operator, caught.value.expected, caught.value.found) == ("orders", "none", "orders-0 from 0")


@pytest.mark.parametrize(
    ("what", "new"),
    [
        ("held by readers", source_of([at(0, 0), at(1, 10), at(2, 21)], SOURCE.enumerator.unassigned, [0, 1, 2, 4])),
        ("held by readers", source_of([at(0, 0), at(1, 10)], SOURCE.enumerator.unassigned, [0, 1, 2, 4])),
        ("held by readers", source_of([*SOURCE.positions, at(2, 20)], SOURCE.enumerator.unassigned, [0, 1, 2, 4])),
        ("held by readers", consumer_of(at(0, 0), at(1, 10), at(2, 21))),
        ("waiting in the enumerator", source_of(SOURCE.positions, [at(3)], [0, 1, 2, 4])),
        ("waiting in the enumerator", source_of(SOURCE.positions, [at(3), at(5, 50), at(5, 50)], [0, 1, 2, 4])),
        ("waiting in the enumerator", source_of(SOURCE.positions, [at(3, 1), at(5, 50)], [0, 1, 2, 4])),
        ("waiting in the enumerator", consumer_of(*SOURCE.positions)),
        ("assigned", source_of(SOURCE.positions, SOURCE.enumerator.unassigned, [0, 1, 2])),
        ("assigned", source_of(SOURCE.positions, SOURCE.enumerator.unassigned, [0, 1, 2, 4, 4])),
    ],
)
def test_undeclared_positions_are_found(what: str, new: KafkaOffsets, by_directory: OffsetsByDirectory) -> None:
    """A position that is stored twice counts as a difference."""
    with pytest.raises(IntegrityError, match=f"the Kafka partitions {what} are not the declared ones") as caught:
        by_directory.check(SOURCE, new)
    assert caught.value.operator == "orders"


@pytest.mark.parametrize(
    ("position", "actual"),
    [
        (changed(0, 1, 5), "orders-0 from 0"),
        (changed(2, EARLIEST, 5), "orders-2 from 20"),
        (changed(3, 30, 5), "orders-3 from unset"),
        (changed(4, 40, 5), "none"),
        (changed(5, 51, 5), "orders-5 from 50"),
        (changed(6, 60, 5), "none"),
        (changed(6, None, 5), "none"),
        (changed(2, None, 5), "orders-2 from 20"),
        (changed(5, None, 5), "orders-5 from 50"),
        (ChangedPartition("bills", 0, 0, 5), "none"),
        (ChangedPartition("bills", 0, None, 5), "none"),
    ],
)
def test_declared_present_offset_that_is_not_the_sources_is_refused(
    position: ChangedPartition, actual: str, by_directory: OffsetsByDirectory
) -> None:
    with pytest.raises(IntegrityError, match="does not have a Kafka offset that was declared as changed") as caught:
        by_directory.check(SOURCE, SOURCE, changed(1, 10), position)
    expected = f"{position.topic}-{position.partition} from {position.next}"
    assert (caught.value.operator, caught.value.expected, caught.value.found) == ("orders", expected, actual)


def test_partition_without_offset_may_be_declared_as_having_none(by_directory: OffsetsByDirectory) -> None:
    """Such a partition waits for the job's starting offsets, or is assigned to a reader that does not hold it.

    A partition that is stored with and without an offset may not be declared as having none.
    """
    by_directory.check(SOURCE, SOURCE, changed(3, None), changed(4, None))
    by_directory.check(SOURCE, SOURCE, changed(3, UNSET))
    for twice in (source_of([at(0), at(0, 7)]), source_of([at(0)], [at(0, 7)])):
        by_directory.check(twice, twice, changed(0, UNSET))
        with pytest.raises(IntegrityError, match="does not have a Kafka offset that was declared as changed"):
            by_directory.check(twice, twice, changed(0, None))


def test_consumer_that_becomes_a_source_has_assigned_the_partitions_it_holds(by_directory: OffsetsByDirectory) -> None:
    """The union state of the consumer may hold a partition more than once."""
    old = consumer_of(at(0, 0), at(1, 10), at(0, 0), at(2, 20))
    after = [at(0, 5), at(1, 10)]
    declared = (changed(0, 0, 5), ChangedPartition("orders", 2, 20, None, dropped=True))
    by_directory.check(old, source_of(after, [], [0, 1]), *declared, becomes_source=True)
    for held, assigned in ((after, [0]), (after, [0, 1, 2]), ([*after, at(0, 5)], [0, 1])):
        with pytest.raises(IntegrityError, match="are not the declared ones"):
            by_directory.check(old, source_of(held, [], assigned), *declared, becomes_source=True)
    with pytest.raises(IntegrityError, match="the Kafka partitions assigned are not"):
        by_directory.check(old, consumer_of(*after), *declared, becomes_source=True)
    by_directory.check(old, consumer_of(at(0, 5), at(1, 10), at(0, 5)), *declared)


def test_first_five_differing_partitions_are_named_in_order(by_directory: OffsetsByDirectory) -> None:
    old, new = (source_of([at(partition, 10 * partition + more) for partition in range(9, 2, -1)]) for more in (0, 1))
    with pytest.raises(IntegrityError) as caught:
        by_directory.check(old, new)
    for lines, more in ((caught.value.expected, 0), (caught.value.found, 1)):
        assert lines == ", ".join(f"orders-{partition} from {10 * partition + more}" for partition in range(3, 8))

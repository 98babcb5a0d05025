"""Elements of Kafka sources after a change; `tests/execution/test_kafka_offsets.py` has whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.flink.kafka.consumer import OFFSETS_STATE
from rescale.flink.kafka.source import READER_STATE
from rescale.flink.metadata.handles import DistributionMode
from rescale.snapshot.kafka.changed import with_kafka_changes
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.locate import WRITTEN_FILE_NUMBER
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import SnapshotError
from support.kafka_state import (
    SPLIT,
    UNION,
    consumer_element,
    consumer_savepoint,
    enumerator,
    operator_entry,
    reader_element,
    savepoint,
    source_savepoint,
)


def changed_snapshot(
    source: Snapshot, *partitions: ChangedPartition, operator: int = 0, becomes_source: bool = False
) -> Snapshot:
    change = KafkaChange(source.operators[operator].operator_id, "orders", "", partitions, becomes_source)
    return with_kafka_changes(source, [change])


def elements(source: Snapshot, operator: int = 0) -> list[list[tuple[bool, bytes]]]:
    """Return for each subtask whether each element was written anew, and its bytes."""
    return [
        [
            (extent.file == WRITTEN_FILE_NUMBER, source.contents.beginning(extent, extent.length))
            for state in stream.states
            for extent in state.elements
        ]
        for stream in source.operators[operator].element_streams
    ]


def new_offset(partition: int, offset: int) -> ChangedPartition:
    return ChangedPartition("orders", partition, 0, offset)


DROPPED = ChangedPartition("orders", 1, 10, None, dropped=True)


def test_only_changed_elements_are_written_anew(tmp_path: Path) -> None:
    splits = [[reader_element("orders", i, 10 * i) for i in (0, 1, 2)], [reader_element("orders", 3, 30)]]
    source = open_snapshot(source_savepoint(tmp_path / "s", splits, enumerator(("orders", i, 0) for i in range(4))))
    after = changed_snapshot(source, new_offset(2, 7), DROPPED)
    assert elements(after) == [
        [(False, splits[0][0]), (True, reader_element("orders", 2, 7))],
        [(False, splits[1][0])],
    ]
    assert after.written_bytes == reader_element("orders", 2, 7)
    coordinator = after.operators[0].entry.coordinator
    assert coordinator is not None
    assert coordinator.data == enumerator(("orders", i, 0) for i in (0, 2, 3))
    assert [entry.coordinator for entry in after.metadata.operators] == [coordinator], "_metadata gets it"


def test_other_operators_keep_offsets_of_the_same_partition(tmp_path: Path) -> None:
    entries = [
        operator_entry(tmp_path / "s", uid, state, mode, [[element]])
        for uid, state, mode, element in (
            ("first", READER_STATE, SPLIT, reader_element("orders", 0, 1)),
            ("second", OFFSETS_STATE, UNION, consumer_element("orders", 0, 1)),
        )
    ]
    source = open_snapshot(savepoint(tmp_path / "s", *entries))
    after = changed_snapshot(source, new_offset(0, 9), operator=1)
    assert after.operators[0] == source.operators[0]
    assert elements(after, 1) == [[(True, consumer_element("orders", 0, 8))]]


def test_second_change_is_written_behind_the_first(tmp_path: Path) -> None:
    source = open_snapshot(consumer_savepoint(tmp_path / "s", [[consumer_element("orders", i, 5) for i in (0, 1)]]))
    after = changed_snapshot(changed_snapshot(source, new_offset(0, 100)), new_offset(1, 200))
    new_elements = [consumer_element("orders", 0, 99), consumer_element("orders", 1, 199)]
    assert elements(after) == [[(True, element) for element in new_elements]]
    assert after.written_bytes == b"".join(new_elements)


def test_consumer_that_becomes_a_source_keeps_every_partition_once(tmp_path: Path) -> None:
    elements_by_subtask = [
        [consumer_element("orders", 0, 4), consumer_element("orders", 1, 5)],
        [consumer_element("orders", 0, 4)],
    ]
    after = changed_snapshot(
        open_snapshot(consumer_savepoint(tmp_path / "s", elements_by_subtask)), DROPPED, becomes_source=True
    )
    assert elements(after) == [[(True, reader_element("orders", 0, 5))], []]
    states = [state for stream in after.operators[0].element_streams for state in stream.states]
    assert {(state.name, state.mode) for state in states} == {(READER_STATE, DistributionMode.SPLIT_DISTRIBUTE)}
    (offsets,) = kafka_offsets(after)
    assert offsets.enumerator is not None
    assert [str(partition) for partition in offsets.enumerator.assigned] == ["orders-0"]


def test_no_change_gives_the_same_snapshot(tmp_path: Path) -> None:
    source = open_snapshot(consumer_savepoint(tmp_path / "s", [[consumer_element("orders", 0, 5)]]))
    assert with_kafka_changes(source, []) is source


def test_offsets_of_a_newer_connector_are_refused(tmp_path: Path) -> None:
    newer_splits = [[reader_element("orders", 0, 5, version=9)]]
    source = open_snapshot(source_savepoint(tmp_path / "s", newer_splits, enumerator([("orders", 0, 0)])))
    with pytest.raises(SnapshotError, match=r"changes Kafka offsets that cannot be read.*version 9"):
        changed_snapshot(source, new_offset(0, 7))

"""Kafka offsets in savepoints of real jobs, compared with those in `expected.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.table import KAFKA_FIXTURES, KafkaFixture
from rescale.flink.kafka.position import owning_subtask
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.snapshot.findings import findings
from rescale.snapshot.kafka.audit import audit
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets, kafka_offsets, labels_without_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot

FOLDER = Path(__file__).parents[2] / "fixtures" / "kafka"
STOPPED_FIXTURE = next(fixture for fixture in KAFKA_FIXTURES if fixture.kinds == ("stop",))
READABLE_FIXTURES = [fixture for fixture in KAFKA_FIXTURES if fixture is not STOPPED_FIXTURE]


def opened(fixture: KafkaFixture) -> Snapshot:
    return open_snapshot(str(FOLDER / fixture.name / "snapshot"))


def offsets_of(fixture: KafkaFixture) -> KafkaOffsets:
    (offsets,) = kafka_offsets(opened(fixture))
    return offsets


def expected_document(fixture: KafkaFixture) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / fixture.name / "expected.json").read_text(encoding="utf-8"))
    return document


def test_table_of_fixtures_lists_all_committed_ones() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/expected.json")} == {fixture.name for fixture in KAFKA_FIXTURES}
    for fixture in KAFKA_FIXTURES:
        document = expected_document(fixture)
        assert (document["version"], document["connector"]) == (fixture.version, fixture.connector)


@pytest.mark.parametrize("fixture", READABLE_FIXTURES, ids=lambda fixture: fixture.name)
def test_next_offset_of_every_partition_is_read(fixture: KafkaFixture) -> None:
    offsets = offsets_of(fixture)
    assert {str(position.partition): position.next for position in offsets.positions} == expected_document(fixture)[
        "next"
    ]
    assert offsets.kind.value in fixture.about
    assert list(audit([offsets])) == []


@pytest.mark.parametrize("fixture", KAFKA_FIXTURES, ids=lambda fixture: fixture.name)
def test_stale_offsets_of_a_stopped_consumer_are_reported(fixture: KafkaFixture) -> None:
    is_reported = any("[kafka-offsets-stale]" in finding for finding in findings(opened(fixture)))
    assert is_reported == (fixture.kinds == ("checkpoint", "stop"))


@pytest.mark.parametrize("fixture", READABLE_FIXTURES, ids=lambda fixture: fixture.name)
def test_partitions_are_assigned_to_readers_as_by_the_connector(fixture: KafkaFixture) -> None:
    offsets = offsets_of(fixture)
    assert offsets.subtasks == tuple(owning_subtask(*position.partition, 2) for position in offsets.positions)
    assert offsets.subtasks == offsets.reading_subtasks(2)
    assert set(offsets.subtasks) == {0, 1}


@pytest.mark.parametrize("fixture", READABLE_FIXTURES, ids=lambda fixture: fixture.name)
def test_enumerator_lists_the_partitions_of_the_readers(fixture: KafkaFixture) -> None:
    offsets = offsets_of(fixture)
    if offsets.kind is KafkaKind.CONSUMER:
        assert offsets.enumerator is None
        return
    assert offsets.enumerator is not None
    assert set(offsets.enumerator.assigned) == {position.partition for position in offsets.positions}
    assert offsets.enumerator.unassigned == ()


def test_fixtures_hold_all_enumerator_versions_but_the_oldest() -> None:
    coordinators = [
        operator.entry.coordinator for fixture in READABLE_FIXTURES for operator in opened(fixture).operators
    ]
    versions = {int.from_bytes(coordinator.data[4:8], "big") for coordinator in coordinators if coordinator is not None}
    assert versions == {1, 2, 3}


def test_missing_offsets_of_a_consumer_stopped_with_a_savepoint_are_reported() -> None:
    snapshot = opened(STOPPED_FIXTURE)
    (label,) = labels_without_offsets(snapshot)
    assert offsets_of(STOPPED_FIXTURE).positions == ()
    assert any(finding.startswith(label) and "[kafka-offsets-missing]" in finding for finding in findings(snapshot))
    warnings = make_plan(snapshot, make_request(snapshot.directory, "/target", ["3"])).warnings
    assert any("[kafka-offsets-missing]" in warning for warning in warnings)
    assert all(labels_without_offsets(opened(fixture)) == () for fixture in READABLE_FIXTURES)

"""Kafka partitions of subtasks before and after, and findings about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import cramjam
import msgspec
import pytest

from rescale.flink.kafka.position import StartAt, owning_subtask
from rescale.flink.metadata.handles import DistributionMode, InlineStream
from rescale.planning.planner import make_plan
from rescale.planning.request.kafka_changes import add_kafka_changes
from rescale.planning.request.kafka_offsets import KafkaRequest, parse_offsets
from rescale.planning.request.request import make_request
from rescale.report.documents import Inspection, KafkaPartition, PlanDocument
from rescale.report.pages.inspection import inspection, inspection_page
from rescale.report.pages.kafka import kafka_line
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_document, plan_page
from rescale.report.renderers.text import render_text
from rescale.snapshot.findings import findings
from rescale.snapshot.kafka.audit import audit, spread_findings
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets, kafka_offsets, labels_without_offsets
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementState, ElementStream, Snapshot
from rescale.snapshot.surgery import NO_SURGERY
from rescale.text.errors import RequestError
from support.kafka_state import (
    NO_STOP,
    consumer_element,
    dynamic_element,
    dynamic_enumerator,
    enumerator,
    hybrid_element,
    hybrid_enumerator,
    reader_element,
    split,
    versioned,
)
from support.snapshot_bytes import i32, operator_header, operator_list
from support.synthetic import operator, snapshot

SPLIT, UNION = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION


def source_snapshot(
    readers: Sequence[Sequence[bytes]], coordinator: bytes | None, *, compressed: bool = False
) -> Snapshot:
    """Return a snapshot of one FLIP-27 source."""
    return snapshot_of_state("SourceReaderState", SPLIT, readers, coordinator, compressed=compressed)


def consumer_snapshot(*subtasks: Sequence[bytes]) -> Snapshot:
    return snapshot_of_state("topic-partition-offset-states", UNION, subtasks)


def snapshot_of_state(
    state: str,
    mode: DistributionMode,
    subtasks: Sequence[Sequence[bytes]],
    coordinator: bytes | None = None,
    *,
    compressed: bool = False,
) -> Snapshot:
    """Return a snapshot whose elements all lie inside `_metadata`, as small state does."""
    header = operator_header((operator_list(state, mode=mode.name),), compressed=compressed)
    data, streams = bytearray(), []
    for subtask, elements in enumerate(subtasks):
        start = len(data)
        data += header
        extents = []
        for element in elements:
            extents.append(Extent(0, len(data), len(element)))
            data += element
        states = (ElementState(state, mode, tuple(extents)),)
        streams.append(ElementStream(subtask, Extent(0, start, len(data) - start), states, header, None))
    kafka_operator = operator("orders", len(subtasks), elements=tuple(streams))
    if coordinator is not None:
        kafka_operator = replace(
            kafka_operator, entry=replace(kafka_operator.entry, coordinator=InlineStream("coordinator", coordinator))
        )
    return replace(snapshot(kafka_operator), metadata_bytes=bytes(data))


def offsets_of(kafka_snapshot: Snapshot) -> KafkaOffsets:
    (offsets,) = kafka_offsets(kafka_snapshot)
    return offsets


def finding_names(kafka_snapshot: Snapshot) -> list[str]:
    return [finding.name for finding in audit(kafka_offsets(kafka_snapshot))]


def elements_by_reader(topic: str, partition_count: int, parallelism: int) -> list[list[bytes]]:
    """Return the elements of each reader after an enumerator's first assignment; partition n is at offset 10 n."""
    readers: list[list[bytes]] = [[] for _ in range(parallelism)]
    for partition in range(partition_count):
        readers[owning_subtask(topic, partition, parallelism)].append(reader_element(topic, partition, 10 * partition))
    return readers


def enumerator_bytes(topic: str, partition_count: int) -> bytes:
    return enumerator((topic, partition, 0) for partition in range(partition_count))


def test_partitions_of_a_source_are_dealt_to_readers_in_order() -> None:
    offsets = offsets_of(source_snapshot(elements_by_reader("orders", 5, 2), enumerator_bytes("orders", 5)))
    assert offsets.kind is KafkaKind.SOURCE
    assert [(position.partition.partition, position.next) for position in offsets.positions] == [
        (1, 10), (3, 30), (0, 0), (2, 20), (4, 40)
    ]  # fmt: skip
    assert offsets.reading_subtasks(2) == (0, 0, 1, 1, 1)
    assert offsets.reading_subtasks(3) == (0, 0, 1, 1, 2)
    assert offsets.reading_subtasks(1) == (0, 0, 0, 0, 0)
    assert list(audit([offsets])) == []


def test_partitions_of_the_old_consumer_are_assigned_by_name() -> None:
    offsets = offsets_of(
        consumer_snapshot(*[[consumer_element("orders", i, 99 + i) for i in range(s, 5, 2)] for s in range(2)])
    )
    assert offsets.kind is KafkaKind.CONSUMER
    assert {str(position.partition): position.next for position in offsets.positions}["orders-3"] == 103
    for parallelism in (1, 2, 3, 7):
        expected = tuple(
            owning_subtask("orders", position.partition.partition, parallelism) for position in offsets.positions
        )
        assert offsets.reading_subtasks(parallelism) == expected


def test_compressed_elements_are_read() -> None:
    def chunk(element: bytes) -> bytes:
        return bytes(cramjam.snappy.compress(element))[10:]

    readers = [[chunk(element) for element in elements] for elements in elements_by_reader("orders", 5, 2)]
    offsets = offsets_of(source_snapshot(readers, enumerator_bytes("orders", 5), compressed=True))
    assert [position.next for position in offsets.positions] == [10, 30, 0, 20, 40]
    readers[1][0] += chunk(b"more")[:7]
    offsets = offsets_of(source_snapshot(readers, enumerator_bytes("orders", 5), compressed=True))
    assert "ends inside a snappy chunk" in str(offsets.unread_reason)


@pytest.mark.parametrize(
    ("readers", "entries", "rule"),
    [
        ([["orders-0"], []], [("orders", 0, 0), ("orders", 1, 0)], "kafka-partition-unread"),
        ([["orders-0"], ["orders-0"]], [("orders", 0, 0)], "kafka-partition-twice"),
        ([["orders-0"], ["orders-1"]], [("orders", 0, 0)], "kafka-partition-unknown"),
        ([["orders-0"], ["orders-1"]], [("orders", 0, 0), ("orders", 1, 1)], "kafka-partition-unknown"),
    ],
)
def test_disagreement_of_readers_and_enumerator_is_found(
    readers: list[list[str]], entries: list[tuple[str, int, int]], rule: str
) -> None:
    elements = [[reader_element("orders", int(name[-1]), 5) for name in partitions] for partitions in readers]
    kafka_snapshot = source_snapshot(elements, enumerator(entries))
    assert finding_names(kafka_snapshot) == [rule]
    assert any(f"[{rule}]" in sentence for sentence in findings(kafka_snapshot, kafka_offsets(kafka_snapshot)))


def test_contradicting_offsets_are_found() -> None:
    kafka_snapshot = source_snapshot(
        [[reader_element("orders", 0, 5)], [reader_element("orders", 0, 7)]], enumerator_bytes("orders", 1)
    )
    assert finding_names(kafka_snapshot) == ["kafka-partition-twice", "kafka-offsets-contradict"]
    (finding,) = audit(
        kafka_offsets(consumer_snapshot([consumer_element("orders", 0, 4), consumer_element("orders", 0, 6)]))
    )
    assert finding.name == "kafka-offsets-contradict"
    assert "5 and 7" in finding.sentence
    assert (
        finding_names(consumer_snapshot([consumer_element("orders", 0, 4)], [consumer_element("orders", 0, 4)])) == []
    )


def test_missing_partition_of_the_old_consumer_is_found() -> None:
    (finding,) = audit(kafka_offsets(consumer_snapshot([consumer_element("orders", i, 4) for i in (0, 2, 3)], [])))
    assert finding.name == "kafka-partition-missing"
    assert "orders-1: these are read from the earliest record" in finding.sentence


def test_damaged_partition_number_is_reported_without_listing_all_gaps() -> None:
    """Two billion partitions are missing; only the first ones are listed."""
    elements = [consumer_element("orders", i, 4) for i in (0, 2, 2**31 - 1)] + [consumer_element("clicks", 1, 4)]
    (finding,) = audit(kafka_offsets(consumer_snapshot(elements, [])))
    assert finding.name == "kafka-partition-missing"
    assert "clicks-0, orders-1, orders-3, orders-4, orders-5 and 2,147,483,641 more: these are read" in finding.sentence


def test_old_consumer_without_offsets_is_reported() -> None:
    kafka_snapshot = consumer_snapshot([], [])
    assert labels_without_offsets(kafka_snapshot) == ("orders",)
    assert any("[kafka-offsets-missing]" in sentence for sentence in findings(kafka_snapshot))
    (warning, *_) = make_plan(kafka_snapshot, make_request("/source", "/target", ["3"])).warnings
    assert "[kafka-offsets-missing]" in warning
    assert labels_without_offsets(consumer_snapshot([], [consumer_element("orders", 0, 1)])) == ()


def test_idle_and_uneven_readers_are_found() -> None:
    offsets = offsets_of(
        source_snapshot([[reader_element("orders", i, 5) for i in range(4)], []], enumerator_bytes("orders", 4))
    )
    assert [finding.name for finding in spread_findings(offsets, 2)] == ["kafka-readers-idle", "kafka-uneven"]
    assert "1 of 2 subtasks have no Kafka partition" in next(spread_findings(offsets, 2)).sentence
    assert list(spread_findings(offsets, 4)) == []
    assert [finding.name for finding in spread_findings(offsets, 5)] == ["kafka-readers-idle"]


@pytest.mark.parametrize(
    ("readers", "coordinator"),
    [
        ([[reader_element("orders", 0, 5)]], i32(1) + versioned(2, b"something else")),
        ([[i32(27) + versioned(1, bytes(19))]], i32(1) + versioned(1, i32(0))),
        ([[i32(27) + versioned(1, bytes(19))]], i32(1) + versioned(9, b"")),
        ([[i32(27) + versioned(1, bytes(19))]], None),
        ([[]], i32(1) + versioned(1, i32(0))),
    ],
)
def test_sources_of_other_systems_have_no_kafka_offsets(readers: list[list[bytes]], coordinator: bytes | None) -> None:
    assert kafka_offsets(source_snapshot(readers, coordinator)) == ()


DYNAMIC_ENUMERATOR, HYBRID_ENUMERATOR = dynamic_enumerator("east", "orders"), hybrid_enumerator([("orders", 0, 0)])
LATER_ENUMERATOR = i32(1) + versioned(3, b"of a later release, or of another system")


@pytest.mark.parametrize(
    ("kind", "readers", "coordinator"),
    [
        (KafkaKind.DYNAMIC, [[]], DYNAMIC_ENUMERATOR),
        (KafkaKind.DYNAMIC, [[]], dynamic_enumerator("east", "orders", version=2)),
        (KafkaKind.DYNAMIC, [[dynamic_element("east", "orders", 0, 5)]], DYNAMIC_ENUMERATOR),
        (KafkaKind.DYNAMIC, [[], [dynamic_element("east", "orders", 0, 5)]], LATER_ENUMERATOR),
        (KafkaKind.HYBRID, [[]], HYBRID_ENUMERATOR),
        (KafkaKind.HYBRID, [[hybrid_element("orders", 0, 5)]], HYBRID_ENUMERATOR),
        (KafkaKind.HYBRID, [[], [hybrid_element("orders", 0, 5)]], LATER_ENUMERATOR),
        (
            KafkaKind.HYBRID,
            [[], [hybrid_element("orders", 0, 5, version=0)]],
            i32(1) + versioned(0, i32(1) + versioned(2, b"unknown")),
        ),
    ],
)
def test_kafka_in_another_source_is_reported_as_not_read(
    kind: KafkaKind, readers: list[list[bytes]], coordinator: bytes
) -> None:
    kafka_snapshot = source_snapshot(readers, coordinator)
    kafka = kafka_offsets(kafka_snapshot)
    assert [offsets.kind for offsets in kafka] == [kind]
    assert finding_names(kafka_snapshot) == ["kafka-not-read"]
    assert any(kind in warning for warning in inspection(kafka_snapshot, kafka).warnings)
    plan = make_plan(kafka_snapshot, make_request("/source", "/target", ["3"]), source_offsets=kafka)
    assert f"orders ({kind})" in render_text(plan_page(plan_document(plan, kafka_snapshot, kafka)))


@pytest.mark.parametrize(
    ("readers", "coordinator"),
    [
        ([[]], dynamic_enumerator("east", "orders", streams=0)),
        ([[]], dynamic_enumerator("east", "orders", version=2)[:-1]),
        ([[dynamic_element("east", "orders", 0, 5, version=2)]], LATER_ENUMERATOR),
        ([[dynamic_element("east", "no name of a topic", 0, 5)]], LATER_ENUMERATOR),
        ([[]], hybrid_enumerator([])),
        ([[hybrid_element("no name of a topic", 0, 5)]], LATER_ENUMERATOR),
        ([[hybrid_element("orders", 0, 5, version=2)]], LATER_ENUMERATOR),
    ],
)
def test_state_similar_to_that_of_another_source_has_no_kafka_offsets(
    readers: list[list[bytes]], coordinator: bytes
) -> None:
    """A `HybridSource` that does not read Kafka yet has none either."""
    assert kafka_offsets(source_snapshot(readers, coordinator)) == ()


@pytest.mark.parametrize(
    ("coordinator", "kind"),
    [
        (DYNAMIC_ENUMERATOR, "DynamicKafkaSource"),
        (HYBRID_ENUMERATOR, "HybridSource"),
    ],
)
def test_request_for_offsets_that_are_not_read_is_refused(coordinator: bytes, kind: str) -> None:
    request = KafkaRequest(offsets=parse_offsets("topic,partition,offset\norders,0,5"))
    with pytest.raises(RequestError) as caught:
        add_kafka_changes(NO_SURGERY, source_snapshot([[]], coordinator), request)
    assert f"cannot read or change the offsets of orders ({kind})" in (caught.value.advice or "")


def test_offset_of_an_operator_that_stores_none_is_refused() -> None:
    kafka_snapshot = source_snapshot([[reader_element("orders", 0, 5)]], enumerator_bytes("orders", 1))
    request = KafkaRequest(offsets=parse_offsets("operator,topic,partition,offset\ncounts,orders,0,6"))
    with pytest.raises(RequestError) as caught:
        add_kafka_changes(
            NO_SURGERY, replace(kafka_snapshot, operators=(*kafka_snapshot.operators, operator("counts", 1))), request
        )
    assert caught.value.expected == "none: no offset is stored"


def test_unknown_damaged_or_large_offsets_are_reported_as_not_read() -> None:
    unknown_split = source_snapshot([[reader_element("orders", 0, 5, version=3)]], enumerator_bytes("orders", 1))
    assert "version 3 of KafkaPartitionSplitSerializer" in (offsets_of(unknown_split).unread_reason or "")
    unknown_enumerator = source_snapshot(elements_by_reader("orders", 2, 2), i32(1) + versioned(4, b"new"))
    assert len(offsets_of(unknown_enumerator).positions) == 2
    assert finding_names(unknown_enumerator) == ["kafka-not-read"]
    damaged_snapshot = source_snapshot([[reader_element("orders", 0, 5), b"damaged"]], enumerator_bytes("orders", 1))
    assert finding_names(damaged_snapshot) == ["kafka-not-read"]
    with patch("rescale.snapshot.kafka.offsets.STATE_LIMIT_BYTES", 20):
        assert "above the limit of 20 bytes" in (
            offsets_of(consumer_snapshot([consumer_element("orders", 0, 5)])).unread_reason or ""
        )
    assert inspection(damaged_snapshot, kafka_offsets(damaged_snapshot)).kafka[0].not_read


def test_start_without_an_offset_is_read() -> None:
    kafka_snapshot = source_snapshot(
        [[reader_element("orders", 0, -2), reader_element("orders", 1, -3, 90)]], enumerator_bytes("orders", 2)
    )
    assert [(p.next, p.stop) for p in offsets_of(kafka_snapshot).positions] == [
        (StartAt.EARLIEST, None),
        (StartAt.COMMITTED, 90),
    ]
    waiting_enumerator = i32(1) + versioned(
        3, i32(1, 0) + i32(len(split("orders", 0, 8))) + split("orders", 0, 8) + i32(1) + b"\1"
    )
    document = inspection(
        source_snapshot([[]], waiting_enumerator), kafka_offsets(source_snapshot([[]], waiting_enumerator))
    ).kafka[0]
    assert document.unassigned == ("orders-0",)
    assert NO_STOP not in msgspec.to_builtins(document).values()


def test_offsets_are_shown_in_inspection_and_plan() -> None:
    kafka_snapshot = source_snapshot(elements_by_reader("orders", 5, 2), enumerator_bytes("orders", 5))
    kafka = kafka_offsets(kafka_snapshot)
    document = inspection(kafka_snapshot, kafka)
    assert msgspec.json.decode(msgspec.json.encode(document), type=Inspection) == document
    text = render_text(inspection_page(document))
    assert "orders (KafkaSource)" in text
    assert "0 to 40" in text
    assert "2, 3" in text
    (line,) = map(kafka_line, document.kafka)
    assert line == "orders (KafkaSource): 5 partitions of orders, next 0 to 40; by subtask 2, 3"
    plan = make_plan(kafka_snapshot, make_request("/source", "/target", ["3"]), source_offsets=kafka)
    summary = plan_document(plan, kafka_snapshot, kafka)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=PlanDocument) == summary
    (kafka_document,) = summary.kafka
    assert kafka_document.partitions[2] == KafkaPartition("orders", 0, 0, None, subtask=1, new_subtask=1)
    assert kafka_document.new_per_subtask == (2, 2, 1)
    assert "2, 3 → 2, 2, 1" in render_text(plan_page(summary))
    assert f"* {line} → 2, 2, 1" in plan_markdown(summary)
    assert any("[kafka-discovery]" in warning for warning in plan.warnings)
    assert (
        make_plan(kafka_snapshot, make_request("/source", "/target", ["3"]), source_offsets=kafka).digest == plan.digest
    )


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_damaged_offsets_do_not_fail_the_rescale(bits: int) -> None:
    element, coordinator = reader_element("orders", 0, 5), enumerator_bytes("orders", 1)
    old_element = consumer_element("orders", 0, 5)
    for at in range(max(len(element), len(coordinator), len(old_element))):
        damaged_parts = [
            bytes(b ^ bits if i == at else b for i, b in enumerate(data))
            for data in (element, coordinator, old_element)
        ]
        for kafka_snapshot in (
            source_snapshot([[damaged_parts[0]]], coordinator),
            source_snapshot([[element]], damaged_parts[1]),
            consumer_snapshot([damaged_parts[2]]),
        ):
            kafka = kafka_offsets(kafka_snapshot)
            assert render_text(inspection_page(inspection(kafka_snapshot, kafka)))
            assert make_plan(kafka_snapshot, make_request("/source", "/target", ["3"]), source_offsets=kafka).operators

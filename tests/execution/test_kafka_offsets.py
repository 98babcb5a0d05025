"""Kafka sources with declared offsets: the bytes of the result hold them, and everything else stays equal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.compare.validation.declared_offsets import check_offsets
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.encoding.snappy import plain_chunk
from rescale.flink.kafka.edited_source import reader_state_header
from rescale.flink.kafka.position import StartAt
from rescale.flink.operator_id import operator_id_of_uid
from rescale.plan.plan import plan_from_json, plan_to_json
from rescale.planning.request.kafka_changes import add_kafka_changes
from rescale.planning.request.kafka_offsets import (
    KafkaRequest,
    offsets_text,
    parse_offsets,
    parse_sources,
    parse_topics,
)
from rescale.planning.request.surgery_request import parse_surgery
from rescale.report.pages.declared import declared_lines
from rescale.runstate.certificate import read_certificate
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets, kafka_offsets
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.text.errors import IntegrityError, RequestError, UnsupportedError
from support.kafka_state import (
    consumer_element,
    consumer_savepoint,
    dynamic_element,
    dynamic_enumerator,
    enumerator,
    reader_element,
    source_savepoint,
    versioned,
)
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshot_bytes import i32, utf
from support.snapshots import directory

NEW_OFFSETS = "topic,partition,offset\norders,0,5\norders,2,earliest\norders,3,drop\n"


def savepoint(directory: Path, *, is_consumer: bool = False, compressed: bool = False) -> str:
    """Write a savepoint of a source with partitions 0 to 4 of one topic; the next offset is ten times the partition."""

    def stored_element(partition: int) -> bytes:
        element_of_consumer = consumer_element("orders", partition, 10 * partition - 1)
        element = element_of_consumer if is_consumer else reader_element("orders", partition, 10 * partition)
        return plain_chunk(element) if compressed else element

    subtasks = [[stored_element(partition) for partition in range(first, 5, 2)] for first in range(2)]
    if is_consumer:
        return consumer_savepoint(directory, subtasks, compressed=compressed)
    enumerator_state = enumerator(("orders", partition, 0) for partition in range(5))
    return source_savepoint(directory, subtasks, enumerator_state, compressed=compressed)


def offsets_by_partition(directory: str) -> dict[int, int | StartAt]:
    return {position.partition.partition: position.next for position in only_source(directory).positions}


def only_source(directory: str) -> KafkaOffsets:
    (offsets,) = kafka_offsets(open_snapshot(directory))
    return offsets


@pytest.mark.parametrize("parallelism", [["3"], []], ids=["another parallelism", "same parallelism"])
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("is_consumer", [False, True], ids=["KafkaSource", "FlinkKafkaConsumer"])
def test_source_reads_on_from_the_declared_offsets(
    tmp_path: Path, parallelism: list[str], *, is_consumer: bool, compressed: bool
) -> None:
    source, target = (
        savepoint(tmp_path / "source", is_consumer=is_consumer, compressed=compressed),
        str(tmp_path / "target"),
    )
    plan = plan_rescale(source, target, parallelism, kafka_offsets=NEW_OFFSETS)
    assert plan_from_json(plan_to_json(plan), "") == plan
    execute_without_spark(plan)
    assert offsets_by_partition(target) == {0: 5, 1: 10, 2: StartAt.EARLIEST, 4: 40}
    if not is_consumer:
        enumerator_state = only_source(target).enumerator
        assert enumerator_state is not None
        assert [partition.partition for partition in enumerator_state.assigned] == [0, 1, 2, 4]
    before, after = open_snapshot(source), open_snapshot(target)
    assert diff_snapshots(before, after, InProcessTasks(), plan.surgery).equal
    assert not diff_snapshots(before, after, InProcessTasks()).equal
    certificate = read_certificate(target)
    assert certificate.surgery == plan.surgery
    assert "own bytes hold the declared Kafka offsets" in certificate.proves
    second_certificate = validate_published(source, target, InProcessTasks())
    assert second_certificate.surgery == certificate.surgery
    third_certificate = validate_published(
        source, target, InProcessTasks(), declared_surgery=parse_surgery(kafka_offsets=NEW_OFFSETS)
    )
    assert third_certificate.surgery == second_certificate.surgery
    with pytest.raises(IntegrityError):
        validate_published(
            source, target, InProcessTasks(), declared_surgery=parse_surgery(kafka_offsets=NEW_OFFSETS[:34])
        )


def test_plan_lists_changed_and_dropped_offsets_with_warnings(tmp_path: Path) -> None:
    """The warnings are about the new offsets: a consumer without an offset for a partition reads all of it."""
    source = savepoint(tmp_path / "source", is_consumer=True)
    plan = plan_rescale(source, str(tmp_path / "target"), kafka_offsets=f"{NEW_OFFSETS}orders,4,35\n")
    label = only_source(source).label
    assert [line.replace(label, "orders") for line in declared_lines(plan.surgery)] == [
        "orders (FlinkKafkaConsumer) reads 3 partitions from another offset: orders-0 from 5 instead of 0 (5 skipped), "
        "orders-2 from earliest instead of 20, orders-4 from 35 instead of 40 (5 read again)",
        "orders (FlinkKafkaConsumer) loses the offsets of 1 partition: orders-3",
    ]
    assert any("treats it as a new one" in warning for warning in plan.warnings)
    assert any("there is no offset for orders-3" in warning for warning in plan.warnings)


@pytest.mark.parametrize("is_consumer", [False, True], ids=["KafkaSource", "FlinkKafkaConsumer"])
def test_topic_is_renamed_in_splits_enumerator_and_union_state(tmp_path: Path, *, is_consumer: bool) -> None:
    """A file of offsets names the topic by its old name."""
    source, target = savepoint(tmp_path / "source", is_consumer=is_consumer), str(tmp_path / "target")
    plan = plan_rescale(source, target, ["3"], kafka_offsets=NEW_OFFSETS, kafka_topics=["orders=a-longer-name"])
    execute_without_spark(plan)
    result_offsets = only_source(target)
    assert offsets_by_partition(target) == {0: 5, 1: 10, 2: StartAt.EARLIEST, 4: 40}
    enumerator_partitions = result_offsets.enumerator.partitions if result_offsets.enumerator is not None else set()
    assert {
        topic.topic
        for topic in (*(position.partition for position in result_offsets.positions), *enumerator_partitions)
    } == {"a-longer-name"}
    assert diff_snapshots(open_snapshot(source), open_snapshot(target), InProcessTasks(), plan.surgery).equal
    assert (
        f"{result_offsets.label} ({result_offsets.kind}): the topic orders is renamed to a-longer-name"
        in declared_lines(read_certificate(target).surgery)
    )
    assert any("the same records at the same offsets" in warning for warning in plan.warnings)


@pytest.mark.parametrize("parallelism", [["3"], []], ids=["another parallelism", "same parallelism"])
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_consumer_becomes_a_kafka_source(tmp_path: Path, parallelism: list[str], *, compressed: bool) -> None:
    """A partition that two subtasks have stored is one split; the description of the state is Flink's own."""
    source, target = savepoint(tmp_path / "source", is_consumer=True, compressed=compressed), str(tmp_path / "target")
    plan = plan_rescale(source, target, parallelism, kafka_offsets=NEW_OFFSETS, kafka_sources=["orders=feed"])
    assert plan_from_json(plan_to_json(plan), "") == plan
    execute_without_spark(plan)
    result_offsets, (operator,) = only_source(target), open_snapshot(target).operators
    assert (result_offsets.kind, operator.operator_id) == (KafkaKind.SOURCE, operator_id_of_uid("feed"))
    assert offsets_by_partition(target) == {0: 5, 1: 10, 2: StartAt.EARLIEST, 4: 40}
    assigned_partitions = b"".join(utf("orders") + i32(partition) for partition in (0, 1, 2, 4))
    assert operator.entry.coordinator is not None
    assert operator.entry.coordinator.data == i32(1) + versioned(1, i32(4) + assigned_partitions)
    assert all(
        stream.parsed is not None and stream.parsed.compressed is compressed for stream in operator.element_streams
    )
    certificate = read_certificate(target)
    assert "every partition is one split" in certificate.proves
    assert any("becomes a KafkaSource" in line for line in declared_lines(certificate.surgery))
    assert diff_snapshots(open_snapshot(source), open_snapshot(target), InProcessTasks(), plan.surgery).equal
    second_certificate = validate_published(source, target, InProcessTasks())
    assert second_certificate.surgery == certificate.surgery
    declared_surgery = parse_surgery(kafka_offsets=NEW_OFFSETS, kafka_sources=["orders=feed"])
    assert (
        validate_published(source, target, InProcessTasks(), declared_surgery=declared_surgery).surgery
        == second_certificate.surgery
    )


@pytest.mark.parametrize("line", ["1.20", "2"])
def test_header_of_reader_state_is_the_one_that_flink_writes(line: str) -> None:
    """The header is the same for every FLIP-27 source."""
    (stream, *_) = next(
        o for o in open_snapshot(directory(f"{line}-source")).operators if o.entry.coordinator
    ).element_streams
    assert reader_state_header(stream.header) == stream.header


def test_partition_of_the_union_state_becomes_one_split(tmp_path: Path) -> None:
    first, other = consumer_element("orders", 0, 4), consumer_element("orders", 1, -915623761776)
    twice = consumer_savepoint(tmp_path / "twice", [[first], [first]])
    execute_without_spark(plan_rescale(twice, str(tmp_path / "target"), kafka_sources=["orders"]))
    assert [position.next for position in only_source(str(tmp_path / "target")).positions] == [5]
    contradicting = consumer_savepoint(tmp_path / "other", [[first], [consumer_element("orders", 0, 6)]])
    unset = consumer_savepoint(tmp_path / "unset", [[first], [other]])
    empty = consumer_savepoint(tmp_path / "empty", [[], []])
    for source, message in (
        (contradicting, "orders-0 does not have exactly one offset"),
        (unset, "orders-1 does not have exactly one offset"),
        (empty, "without offsets cannot become a KafkaSource"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            migration_surgery(source, "orders")
    new_offsets = "topic,partition,offset\norders,*,latest"
    assert all(
        migration_surgery(source, "orders", new_offsets).kafka[0].becomes_source for source in (contradicting, unset)
    )
    with pytest.raises(RequestError, match="it is not a FlinkKafkaConsumer") as caught:
        migration_surgery(savepoint(tmp_path / "source"), "orders")
    assert caught.value.expected == "none: the snapshot has no FlinkKafkaConsumer"
    with pytest.raises(RequestError, match="is also renamed by another option"):
        plan_rescale(twice, str(tmp_path / "new"), renames=["orders=a"], kafka_sources=["orders=b"])
    for argument in ("", "=orders", "orders="):
        with pytest.raises(RequestError, match="not an operator that becomes a KafkaSource"):
            parse_sources([argument])


def test_consumer_with_state_that_a_kafka_source_cannot_hold_is_refused(tmp_path: Path) -> None:
    source = open_snapshot(savepoint(tmp_path / "source", is_consumer=True))
    offsets_changes = KafkaRequest(sources={"orders": ""})
    (operator,) = source.operators
    (stream, *rest) = operator.element_streams
    other_state = replace(stream.states[0], name="mine")
    with_other_state = replace(operator, element_streams=(replace(stream, states=(*stream.states, other_state)), *rest))
    with pytest.raises(UnsupportedError, match="with other state than Kafka offsets") as caught:
        add_kafka_changes(NO_SURGERY, replace(source, operators=(with_other_state,)), offsets_changes)
    assert caught.value.found == "mine"
    with pytest.raises(UnsupportedError, match="cannot hold the state"):
        add_kafka_changes(NO_SURGERY, replace(source, metadata=replace(source.metadata, version=2)), offsets_changes)


def migration_surgery(source: str, kafka_source: str, new_offsets: str = "") -> Surgery:
    kafka_changes = KafkaRequest(parse_offsets(new_offsets), {}, parse_sources([kafka_source]))
    return add_kafka_changes(NO_SURGERY, open_snapshot(source), kafka_changes)


def test_two_topics_cannot_get_the_same_name(tmp_path: Path) -> None:
    splits = [[reader_element(topic, 0, 1)] for topic in ("orders", "clicks")]
    source = source_savepoint(tmp_path / "source", splits, enumerator([("orders", 0, 0), ("clicks", 0, 0)]))
    for renames in (["orders=clicks"], ["orders=all", "clicks=all"]):
        with pytest.raises(RequestError, match="two topics would get the same name"):
            topic_surgery(source, renames)
    with pytest.raises(RequestError, match="of which no Kafka source has a partition") as caught:
        topic_surgery(source, ["order=all"])
    assert caught.value.expected == "one of clicks, orders"
    (change,) = topic_surgery(source, ["orders=clicks", "clicks=orders"]).kafka
    assert [(partition.topic, partition.new_topic) for partition in change.partitions] == [
        ("clicks", "orders"),
        ("orders", "clicks"),
    ]
    (change,) = topic_surgery(source, ["orders=clicks"], "topic,partition,offset\nclicks,*,drop").kafka
    assert [partition.dropped for partition in change.partitions] == [True, False]
    for argument in ("orders", "orders=", "=clicks", "orders=a b", "orders=orders", "orders=.."):
        with pytest.raises(RequestError, match="not a new name of a topic"):
            parse_topics([argument])


def topic_surgery(source: str, renames: list[str], new_offsets: str = "") -> Surgery:
    return add_kafka_changes(
        NO_SURGERY, open_snapshot(source), KafkaRequest(parse_offsets(new_offsets), parse_topics(renames))
    )


@pytest.mark.parametrize("text_format", ["csv", "json"])
def test_only_edited_rows_of_printed_offsets_change_a_partition(tmp_path: Path, text_format: str) -> None:
    source = savepoint(tmp_path / "source")
    printed_offsets = offsets_text(kafka_offsets(open_snapshot(source)), text_format)
    label = only_source(source).label
    assert (f"{label},orders,3,30" in printed_offsets) is (text_format == "csv")
    assert requested_surgery(source, printed_offsets) == NO_SURGERY
    (change,) = requested_surgery(source, printed_offsets.replace("30", "33")).kafka
    assert [(partition.partition, partition.next, partition.new_next) for partition in change.partitions] == [
        (3, 30, 33)
    ]


def requested_surgery(source: str, text: str) -> Surgery:
    return add_kafka_changes(NO_SURGERY, open_snapshot(source), KafkaRequest(parse_offsets(text)))


def test_offsets_of_a_whole_topic_are_dropped_or_changed(tmp_path: Path) -> None:
    source, target = savepoint(tmp_path / "source"), str(tmp_path / "target")
    rows = json.dumps([{"topic": "orders", "partition": "*", "offset": "drop"}])
    execute_without_spark(plan_rescale(source, target, kafka_offsets=rows))
    assert kafka_offsets(open_snapshot(target)) == ()  # without splits its bytes do not tell that it is a Kafka source
    surgery = requested_surgery(source, "topic,partition,offset\norders,*,latest")
    assert [partition.new_next for partition in surgery.kafka[0].partitions] == [StartAt.LATEST] * 5


@pytest.mark.parametrize(
    ("text", "message", "found_text"),
    [
        (
            "topic,partition,offset\norders,5,1",
            "the offset of a partition for which no Kafka source has an offset",
            "orders-5",
        ),
        (
            "topic,partition,offset\nclicks,0,1",
            "the offset of a partition for which no Kafka source has an offset",
            "clicks-0",
        ),
        ("topic,partition,offset\nclicks,*,drop", "drops a partition that no Kafka source has", "clicks"),
        ("operator,topic,partition,offset\nclicks,orders,0,1", "no operator 'clicks'", "clicks"),
        ("topic,partition,offset\norders,0,1\norders,0,2", "line 3 .* names a partition a second time", "orders 0"),
        ("topic,partition,offset\norders,0,1\norders,*,latest", "given two offsets", "orders-0: 1 and latest"),
        ("topic,partition,offset\norders,0,unset", "cannot be changed to unset", "unset for orders-0"),
        ("topic,partition,offset\norders,0,-2", "line 2 .* has no offset", "'-2'"),
        ("topic,partition,offset\norders,0,", "line 2 .* has no offset", "''"),
        ("topic,partition,offset\norders,zero,1", "names no partition", "'orders', 'zero'"),
        ("topic,partition,offset\norders,*,7", "gives all partitions of a topic the same offset", "7"),
        ("topic,partition\norders,0", "has other fields", "topic, partition"),
        ("orders,0,5", "first line .* has other fields", "orders, 0, 5"),
        ("topic,partition,offset,offset\norders,0,5,6", "other fields", "topic, partition, offset, offset"),
        ("topic,partition,offset,lag\norders,0,1,2", "has other fields", "topic, partition, offset, lag"),
        ("topic,partition,offset\norders,0", "has more or fewer fields", None),
        ('[{"topic": "orders", "partition": 0, "offset": null}]', "neither text nor a number", None),
        ('[{"topic": "orders", "partition": 0, "offset": 1, "offset": 2}]', "has a field twice", "offset"),
        ('{"topic": "orders", "partition": 0, "offset": 1}', "not a list of objects", "dict"),
        ("[1", "not valid JSON", None),
        ('[{"topic":' + "[" * 1200, "not valid JSON", None),
        ("topic,partition,offset\n" + "x" * 140_000, "not valid CSV", None),
    ],
)
def test_invalid_offsets_are_refused_before_anything_is_written(
    tmp_path: Path, text: str, message: str, found_text: str | None
) -> None:
    source, target = savepoint(tmp_path / "source"), tmp_path / "target"
    with pytest.raises(RequestError, match=message) as caught:
        plan_rescale(source, str(target), kafka_offsets=text)
    assert found_text is None or caught.value.found == found_text
    assert not target.exists()


def test_offsets_of_sources_that_cannot_be_read_are_not_changed(tmp_path: Path) -> None:
    """Dynamic Kafka sources hold no offsets that can be changed."""
    unreadable_source = source_savepoint(
        tmp_path / "newer", [[reader_element("orders", 0, 5, version=1)]], enumerator([("a", 0, 0)])
    )
    with pytest.raises(UnsupportedError, match="offsets of this source cannot be read"):
        requested_surgery(unreadable_source, NEW_OFFSETS)
    with pytest.raises(RequestError, match="could not be read"):
        offsets_text(kafka_offsets(open_snapshot(unreadable_source)), "csv")
    dynamic_source = source_savepoint(
        tmp_path / "dynamic", [[dynamic_element("a", "orders", 0, 5)]], dynamic_enumerator("a", "orders")
    )
    with pytest.raises(RequestError, match="the snapshot holds no Kafka offsets"):
        requested_surgery(dynamic_source, NEW_OFFSETS)


def test_result_with_other_offsets_than_declared_is_refused(tmp_path: Path) -> None:
    """The source itself stands in place of the result, or the declared change is of an offset that the source lacks."""
    source = savepoint(tmp_path / "source")
    snapshot, surgery = open_snapshot(source), requested_surgery(source, NEW_OFFSETS)
    with pytest.raises(IntegrityError, match="the Kafka partitions held by readers are not") as caught:
        check_offsets(snapshot, snapshot, surgery)
    assert caught.value.found == "orders-0 from 0, orders-2 from 20, orders-3 from 30"
    consumer = open_snapshot(savepoint(tmp_path / "other", is_consumer=True))
    surgery_of_other_offset = requested_surgery(savepoint(tmp_path / "moved"), "topic,partition,offset\norders,0,5")
    source_without_offset = source_savepoint(
        tmp_path / "gone", [[reader_element("orders", 0, 8)]], enumerator([("orders", 0, 0)])
    )
    with pytest.raises(IntegrityError, match="does not have a Kafka offset"):
        check_offsets(open_snapshot(source_without_offset), consumer, surgery_of_other_offset)


def test_offsets_of_a_dropped_source_cannot_be_changed() -> None:
    """The files of a dropped operator are not read."""
    source = directory("2-source")
    (dropped,) = (operator for operator in open_snapshot(source).operators if operator.entry.coordinator is not None)
    with pytest.raises(RequestError, match="holds no Kafka offsets"):
        plan_rescale(source, "/nowhere/target", ["3"], drops=[dropped.operator_id], kafka_topics=["a=b"])

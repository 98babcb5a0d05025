"""Jobs that read from a real Kafka are rescaled from 2 to 3 and back, and read every record exactly once.

The first start of a job reads the first phase of records from the topics. Each later start reads the records that were
written meanwhile. Rescale must find the offsets and readers in a snapshot that Kafka and Flink know: the next offset of
each partition is its number of records, and the first readers are those that the enumerator chose. Before the last
start a partition is added. The subtask that follows from its name reads it from its earliest record, although the job
is configured to begin with the latest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.distribution import KAFKA_CONNECTORS, LINES
from oracle.harness import Flink, Job
from rescale.flink.kafka.position import owning_subtask
from rescale.flink.release_line import RELEASE_LINES
from rescale.flink.serializers.release_rules import Restores
from rescale.snapshot.findings import findings
from rescale.snapshot.kafka.audit import audit
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets, kafka_offsets, labels_without_offsets
from rescale.snapshot.prospects import prospects
from rescale.snapshot.reading.opening import open_snapshot
from support.kafka_broker import late_partition, records, running_broker, totals
from support.pipeline import execute_without_spark, plan_rescale, rescale_snapshot
from support.slow import gate, slow


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with running_broker() as address:
        yield address


@pytest.fixture(scope="module")
def kafka_1_20() -> Iterator[Flink]:
    with Flink(LINES["1.20"], kafka=KAFKA_CONNECTORS["1.20"]) as flink:
        yield flink


@pytest.fixture(scope="module")
def kafka_2() -> Iterator[Flink]:
    with Flink(LINES["2"], kafka=KAFKA_CONNECTORS["2"]) as flink:
        yield flink


def offsets_of(path: Path) -> KafkaOffsets:
    (offsets,) = kafka_offsets(open_snapshot(str(path)))
    return offsets


@pytest.mark.parametrize(
    ("flink_fixture", "scenario", "kind", "seed"),
    [
        slow("kafka_1_20", "kafka.NewSource", KafkaKind.SOURCE, 1),
        gate("kafka_2", "kafka.NewSource", KafkaKind.SOURCE, 2),
        slow("kafka_1_20", "kafka.OldConsumer", KafkaKind.CONSUMER, 3),
    ],
)
def test_every_record_is_read_once_after_each_rescale(
    request: pytest.FixtureRequest,
    broker: str,
    tmp_path: Path,
    flink_fixture: str,
    scenario: str,
    kind: KafkaKind,
    seed: int,
) -> None:
    flink: Flink = request.getfixturevalue(flink_fixture)
    job = Job(scenario, 2, {"seed": seed}, max_parallelism=128, configuration={"kafka": broker})
    savepoint = flink.collect(job, tmp_path / "first", len(records(seed, 0)))
    assert sorted(savepoint.results) == records(seed, 0)
    offsets = offsets_of(savepoint.path)
    assert offsets.reading_subtasks(2) == tuple(
        owning_subtask(*position.partition, 2) for position in offsets.positions
    )
    for phase, parallelism in ((1, 3), (2, 2)):
        offsets = offsets_of(savepoint.path)
        assert (offsets.kind, offsets.unread_reason, list(audit([offsets]))) == (kind, None, [])
        assert {str(position.partition): position.next for position in offsets.positions} == totals(seed, phase)
        subtask_by_position = dict(zip(offsets.positions, offsets.reading_subtasks(parallelism), strict=True))
        target = tmp_path / f"rescaled-{parallelism}"
        rescale_snapshot(str(savepoint.path), str(target), parallelism=[str(parallelism)])
        next_job = job.with_(parallelism=parallelism, parameters={"seed": seed, "phase": phase})
        expected = records(seed, phase)
        savepoint = flink.collect(next_job, tmp_path / f"phase-{phase}", len(expected), restored=target)
        assert sorted(savepoint.results) == expected
        offsets_after = offsets_of(savepoint.path)
        subtask_by_partition = {
            position.partition: subtask
            for position, subtask in zip(offsets_after.positions, offsets_after.subtasks, strict=True)
        }
        expected_subtasks = {position.partition: subtask for position, subtask in subtask_by_position.items()}
        if phase == 2:
            late = late_partition(seed)
            expected_subtasks[late] = owning_subtask(*late, parallelism)
        assert subtask_by_partition == expected_subtasks
    assert {str(position.partition): position.next for position in offsets_of(savepoint.path).positions} == totals(
        seed, 3
    )


@pytest.mark.parametrize(
    ("flink_fixture", "scenario", "seed", "new_seed"),
    [slow("kafka_1_20", "kafka.OldConsumer", 7, 7), slow("kafka_2", "kafka.NewSource", 8, 9)],
)
def test_kafka_records_are_read_from_the_declared_offsets(
    request: pytest.FixtureRequest,
    broker: str,
    tmp_path: Path,
    flink_fixture: str,
    scenario: str,
    seed: int,
    new_seed: int,
) -> None:
    """Some records are read again and some are skipped. One partition is read from its beginning, and a dropped one as
    if it were new. With another seed, the job reads topics of other names, which have the same records.
    """
    flink: Flink = request.getfixturevalue(flink_fixture)
    job = Job(scenario, 2, {"seed": seed}, max_parallelism=128, configuration={"kafka": broker})
    savepoint = flink.collect(job, tmp_path / "first", len(records(seed, 0)))
    orders_topic, other_topic = sorted(
        {position.partition.topic for position in offsets_of(savepoint.path).positions}, key=len
    )
    first_offset_by_partition = {f"{orders_topic}/0": 3, f"{orders_topic}/1": 19, f"{other_topic}/4": 0}
    rows = [f"{partition.replace('/', ',')},{offset}" for partition, offset in first_offset_by_partition.items()]
    offsets_csv = "\n".join(["topic,partition,offset", *rows, f"{orders_topic},2,earliest", f"{other_topic},0,drop"])
    first_offset_by_partition |= {f"{orders_topic}/2": 0, f"{other_topic}/0": 0}
    target = str(tmp_path / "target")
    new_topic_by_old = {old: old.replace(f"-{seed}", f"-{new_seed}") for old in (orders_topic, other_topic)}
    renames = [f"{old}={new}" for old, new in new_topic_by_old.items() if old != new]
    execute_without_spark(
        plan_rescale(str(savepoint.path), target, ["3"], kafka_offsets=offsets_csv, kafka_topics=renames)
    )
    phase = 0 if renames else 1
    unread_records = records(new_seed, phase) if phase else []
    first_offset_by_partition = {
        f"{new_topic_by_old[partition.partition('/')[0]]}/{partition.partition('/')[2]}": first
        for partition, first in first_offset_by_partition.items()
    }
    expected = [
        record
        for record in {*records(new_seed, 0), *unread_records}
        if _is_read(record, first_offset_by_partition, set(unread_records))
    ]
    next_job = job.with_(parallelism=3, parameters={"seed": new_seed, "phase": phase})
    collected = flink.collect(next_job, tmp_path / "again", len(expected), restored=target)
    assert sorted(collected.results) == sorted(expected)


@pytest.mark.parametrize(("flink_fixture", "seed"), [slow("kafka_1_20", 10), slow("kafka_2", 11)])
def test_consumer_of_flink_1_becomes_a_source_that_reads_every_record_once(
    request: pytest.FixtureRequest, kafka_1_20: Flink, broker: str, tmp_path: Path, flink_fixture: str, seed: int
) -> None:
    """The source gets another uid and another shape, on the same Flink or the next. It discovers a new partition."""
    flink: Flink = request.getfixturevalue(flink_fixture)
    job = Job("kafka.NewSource", 3, {"seed": seed, "phase": 2}, max_parallelism=128, configuration={"kafka": broker})
    consumer_job = Job("kafka.OldConsumer", 2, {"seed": seed}, max_parallelism=128, configuration={"kafka": broker})
    savepoint = kafka_1_20.collect(
        consumer_job.with_(uids={"orders": "consumer"}), tmp_path / "first", len(records(seed, 0))
    )
    assert sorted(savepoint.results) == records(seed, 0)
    target = tmp_path / "target"
    execute_without_spark(plan_rescale(str(savepoint.path), str(target), ["3"], kafka_sources=["consumer=orders"]))
    source_offsets = offsets_of(target)
    assert (source_offsets.kind, list(audit([source_offsets]))) == (KafkaKind.SOURCE, [])
    subtask_by_partition = {
        position.partition: subtask
        for position, subtask in zip(source_offsets.positions, source_offsets.reading_subtasks(3), strict=True)
    }
    expected = records(seed, 2)
    collected = flink.collect(job, tmp_path / "again", len(expected), restored=target)
    assert sorted(collected.results) == expected
    offsets_after = offsets_of(collected.path)
    new_subtask_by_partition = {
        position.partition: subtask
        for position, subtask in zip(offsets_after.positions, offsets_after.subtasks, strict=True)
    }
    late = late_partition(seed)
    assert new_subtask_by_partition == {**subtask_by_partition, late: owning_subtask(*late, 3)}


@pytest.mark.slow
def test_source_of_flink_1_is_restored_by_flink_2_as_predicted(
    kafka_1_20: Flink, kafka_2: Flink, broker: str, tmp_path: Path
) -> None:
    job = Job("kafka.NewSource", 2, {"seed": 12}, max_parallelism=128, configuration={"kafka": broker})
    savepoint = kafka_1_20.collect(job, tmp_path / "first", len(records(12, 0)))
    snapshot = open_snapshot(str(savepoint.path))
    predictions = prospects(snapshot, RELEASE_LINES[-1], kafka_offsets(snapshot))
    restores_by_state = {state.name: state.restores for operator in predictions.operators for state in operator.states}
    assert restores_by_state["SourceReaderState"] == restores_by_state["coordinator"] == Restores.YES
    next_job = job.with_(parallelism=3, parameters={"seed": 12, "phase": 1})
    expected = records(12, 1)
    collected = kafka_2.collect(next_job, tmp_path / "again", len(expected), restored=savepoint.path)
    assert sorted(collected.results) == expected


def _is_read(record: str, first_offset_by_partition: dict[str, int], unread_records: set[str]) -> bool:
    """Return whether the job reads the record: from the first offset of its partition on, or else if it is unread."""
    partition, _, offset = record.rpartition("/")
    return (
        int(offset) >= first_offset_by_partition[partition]
        if partition in first_offset_by_partition
        else record in unread_records
    )


@pytest.mark.slow
def test_missing_offsets_of_a_consumer_after_stop_with_savepoint_are_found(
    kafka_1_20: Flink, broker: str, tmp_path: Path
) -> None:
    job = Job("kafka.OldConsumer", 2, {"seed": 4}, max_parallelism=128, configuration={"kafka": broker})
    savepoint = kafka_1_20.collect(job, tmp_path / "first", len(records(4, 0)), kinds=["stop"])
    snapshot = open_snapshot(str(savepoint.path))
    assert len(labels_without_offsets(snapshot)) == 1
    assert any("[kafka-offsets-missing]" in sentence for sentence in findings(snapshot))
    target = tmp_path / "rescaled"
    rescale_snapshot(str(savepoint.path), str(target), parallelism=["3"])
    next_job = job.with_(parallelism=3, parameters={"seed": 4, "phase": 1})
    all_records = sorted([*records(4, 0), *records(4, 1)])
    assert (
        sorted(kafka_1_20.collect(next_job, tmp_path / "again", len(all_records), restored=target).results)
        == all_records
    )


@pytest.mark.parametrize(("flink_fixture", "seed"), [slow("kafka_1_20", 5), slow("kafka_2", 6)])
def test_source_of_several_clusters_is_rescaled_and_reported_as_unread(
    request: pytest.FixtureRequest, broker: str, tmp_path: Path, flink_fixture: str, seed: int
) -> None:
    flink: Flink = request.getfixturevalue(flink_fixture)
    job = Job("kafka.ClusterSource", 2, {"seed": seed}, max_parallelism=128, configuration={"kafka": broker})
    savepoint = flink.collect(job, tmp_path / "first", len(records(seed, 0)))
    offsets = offsets_of(savepoint.path)
    assert offsets.kind is KafkaKind.DYNAMIC
    assert [finding.name for finding in audit([offsets])] == ["kafka-not-read"]
    target = tmp_path / "rescaled"
    rescale_snapshot(str(savepoint.path), str(target), parallelism=["3"])
    next_job = job.with_(parallelism=3, parameters={"seed": seed, "phase": 1})
    expected = records(seed, 1)
    assert sorted(flink.collect(next_job, tmp_path / "again", len(expected), restored=target).results) == expected

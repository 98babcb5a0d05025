"""Findings about Kafka offsets. Each finding has a name, by which users can allow it.

After a restore the enumerator of a `KafkaSource` does not assign partitions that its state lists as assigned. If no
reader holds such a partition, nobody reads it. The enumerator assigns all other partitions as new, even if a reader
holds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from rescale.flink.kafka.position import Position, TopicPartition, owning_subtask
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets, labels_with_stale_offsets, labels_without_offsets
from rescale.snapshot.model import Snapshot
from rescale.text.names import first_of

OFFSETS_MISSING = "kafka-offsets-missing"
OFFSETS_STALE = "kafka-offsets-stale"
PARTITION_MISSING = "kafka-partition-missing"
PARTITION_UNREAD = "kafka-partition-unread"
PARTITION_UNKNOWN = "kafka-partition-unknown"
PARTITION_TWICE = "kafka-partition-twice"
OFFSETS_CONTRADICT = "kafka-offsets-contradict"
NOT_READ = "kafka-not-read"
READERS_IDLE = "kafka-readers-idle"
UNEVEN = "kafka-uneven"
DISCOVERY = "kafka-discovery"

_MOST_SHOWN = 5


class OffsetFinding(NamedTuple):
    """A finding about the offsets of an operator, with the name by which users can allow it."""

    name: str
    operator: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.sentence} [{self.name}]"


def stopped_consumers(snapshot: Snapshot) -> Iterator[OffsetFinding]:
    """Yield the findings about offsets of a `FlinkKafkaConsumer` after stop-with-savepoint, from `_metadata` alone."""
    for label in labels_without_offsets(snapshot):
        yield OffsetFinding(
            OFFSETS_MISSING,
            label,
            "the state of a FlinkKafkaConsumer holds no offset, as after stop-with-savepoint: the restored consumer "
            "reads every partition from the earliest record. Take a savepoint and then cancel the job",
        )
    for label in labels_with_stale_offsets(snapshot):
        yield OffsetFinding(
            OFFSETS_STALE,
            label,
            "the savepoint stopped the job, and a stopping FlinkKafkaConsumer stores no offsets: these offsets are "
            "from the previous checkpoint, so later records are read twice. Take a savepoint and then cancel the job",
        )


def audit(source_offsets: Iterable[KafkaOffsets]) -> Iterator[OffsetFinding]:
    """Yield the findings about the stored offsets."""
    for offsets in source_offsets:
        for name, sentence in _offset_findings(offsets):
            yield OffsetFinding(name, offsets.label, sentence)


def spread_findings(offsets: KafkaOffsets, parallelism: int) -> Iterator[OffsetFinding]:
    """Yield findings about subtasks that would have no partition, or more than their share, at this parallelism."""
    if not offsets.positions:
        return
    position_counts = positions_per_subtask(offsets, parallelism)
    idle_count = position_counts.count(0)
    if idle_count:
        watermark_clause = ", and hold back watermarks unless the WatermarkStrategy has withIdleness"
        yield OffsetFinding(
            READERS_IDLE,
            offsets.label,
            f"{idle_count} of {parallelism} subtasks have no Kafka partition to read"
            + (watermark_clause if offsets.kind is KafkaKind.SOURCE else ""),
        )
    most_partitions, even_share = max(position_counts), -(-len(offsets.positions) // parallelism)
    if most_partitions > even_share:
        yield OffsetFinding(
            UNEVEN,
            offsets.label,
            f"subtask {position_counts.index(most_partitions)} reads {most_partitions} of {len(offsets.positions)} "
            f"Kafka partitions; {even_share} would be even",
        )


def discovery_findings(offsets: KafkaOffsets, parallelism: int) -> Iterator[OffsetFinding]:
    """Yield a finding about how the job handles partitions that the snapshot lacks, if that may surprise the user."""
    owning_subtasks = tuple(owning_subtask(*position.partition, parallelism) for position in offsets.positions)
    if offsets.kind is KafkaKind.CONSUMER:
        sentence = "partitions without a stored offset are read from the earliest record (FlinkKafkaConsumerBase)"
    elif offsets.reading_subtasks(parallelism) != owning_subtasks:
        sentence = (
            "its partitions are dealt to subtasks in turn; new partitions go to subtasks by topic and number "
            "(KafkaSourceEnumerator.getSplitOwner), even to subtasks with many, and are read from the earliest record"
        )
    else:
        return
    yield OffsetFinding(DISCOVERY, offsets.label, sentence)


def positions_per_subtask(offsets: KafkaOffsets, parallelism: int) -> list[int]:
    """Return the number of positions that each subtask reads at a parallelism."""
    count_by_subtask = Counter(offsets.reading_subtasks(parallelism))
    return [count_by_subtask[subtask] for subtask in range(parallelism)]


def _offset_findings(offsets: KafkaOffsets) -> Iterator[tuple[str, str]]:
    if offsets.unread_enumerator_reason:
        yield (
            NOT_READ,
            "the enumerator's state was not read, nor compared with the readers' state: "
            f"{offsets.unread_enumerator_reason}",
        )
    if offsets.unread_reason:
        yield NOT_READ, f"its Kafka offsets were not read: {offsets.unread_reason}"
        return
    yield from _repeated_partitions(offsets)
    if offsets.kind is KafkaKind.CONSUMER:
        yield from _partitions_without_offset(offsets)
    elif offsets.enumerator is not None:
        yield from _enumerator_findings(offsets)


def _repeated_partitions(offsets: KafkaOffsets) -> Iterator[tuple[str, str]]:
    count_by_partition = Counter(position.partition for position in offsets.positions)
    repeated_partitions = [partition for partition, count in count_by_partition.items() if count > 1]
    positions_by_partition: dict[TopicPartition, set[Position]] = {
        partition: set() for partition in repeated_partitions
    }
    for position in offsets.positions:
        if position.partition in positions_by_partition:
            positions_by_partition[position.partition].add(position)
    contradicting_partitions = [
        partition for partition, positions in positions_by_partition.items() if len(positions) > 1
    ]
    if offsets.kind is KafkaKind.SOURCE and repeated_partitions:
        yield (
            PARTITION_TWICE,
            f"readers hold {_partition_names(repeated_partitions)} more than once: records will be read twice",
        )
    if contradicting_partitions:
        offsets_text = " and ".join(
            sorted(str(position.next) for position in positions_by_partition[contradicting_partitions[0]])
        )
        yield (
            OFFSETS_CONTRADICT,
            f"there are several offsets for {_partition_names(contradicting_partitions)}: the next record of "
            f"{contradicting_partitions[0]} would be {offsets_text}",
        )


def _partitions_without_offset(offsets: KafkaOffsets) -> Iterator[tuple[str, str]]:
    """Yield a finding about partitions without an offset. It lists only a few: damaged state may lack very many."""
    partitions_with_offset = {position.partition for position in offsets.positions}
    last_partition_by_topic = dict(sorted(partitions_with_offset))
    missing_count = sum(last_partition_by_topic.values()) + len(last_partition_by_topic) - len(partitions_with_offset)
    if missing_count:
        missing_partitions = (
            partition
            for topic, last_partition in last_partition_by_topic.items()
            for i in range(last_partition)
            if (partition := TopicPartition(topic, i)) not in partitions_with_offset
        )
        partition_names = first_of(list(map(str, islice(missing_partitions, _MOST_SHOWN))), _MOST_SHOWN, missing_count)
        yield PARTITION_MISSING, f"there is no offset for {partition_names}: these are read from the earliest record"


def _enumerator_findings(offsets: KafkaOffsets) -> Iterator[tuple[str, str]]:
    assert offsets.enumerator is not None
    held_partitions = {position.partition for position in offsets.positions}
    assigned_partitions = set(offsets.enumerator.assigned)
    unread_partitions = sorted(assigned_partitions - held_partitions)
    if unread_partitions:
        yield (
            PARTITION_UNREAD,
            f"no reader holds {_partition_names(unread_partitions)}, which the enumerator has assigned and will not "
            "assign again: nobody reads them, which is right only if the source had read them up to their stopping "
            "offsets",
        )
    unknown_partitions = sorted(held_partitions - assigned_partitions)
    if unknown_partitions:
        yield (
            PARTITION_UNKNOWN,
            f"readers hold {_partition_names(unknown_partitions)}, which the enumerator has not assigned: it will "
            "assign them again, and records will be read twice",
        )


def _partition_names(partitions: list[TopicPartition]) -> str:
    return first_of(list(map(str, partitions)), _MOST_SHOWN)

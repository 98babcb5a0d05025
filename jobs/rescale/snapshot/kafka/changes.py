"""Declared changes to the partitions of Kafka sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rescale.flink.kafka.position import Position, StartAt, TopicPartition


@dataclass(frozen=True)
class ChangedPartition:
    """A partition of a source whose offset or topic changes, or that is dropped.

    `next` is the stored offset of the next record, None if no offset is stored. `new_next` is the new offset, and
    `new_topic` the new name of the topic; each is None if it stays.
    """

    topic: str
    partition: int
    next: int | StartAt | None
    new_next: int | StartAt | None
    dropped: bool = False
    new_topic: str | None = None

    def new_position(self, position: Position) -> Position | None:
        """Return the new position in the partition; None if the partition is dropped."""
        if self.dropped:
            return None
        next_offset = position.next if self.new_next is None else self.new_next
        partition = position.partition._replace(topic=self.new_topic or self.topic)
        return position._replace(partition=partition, next=next_offset)


@dataclass(frozen=True)
class KafkaChange:
    """Changes to the partitions of an operator; `operator_id` is its id before any renaming, `kind` its `KafkaKind`.

    `becomes_source` tells whether the operator is a `FlinkKafkaConsumer` whose offsets become splits of a
    `KafkaSource`.
    """

    operator_id: str
    label: str
    kind: str
    partitions: tuple[ChangedPartition, ...]
    becomes_source: bool = False

    @cached_property
    def _by_partition(self) -> dict[TopicPartition, ChangedPartition]:
        return {TopicPartition(partition.topic, partition.partition): partition for partition in self.partitions}

    def new_position(self, position: Position) -> Position | None:
        """Return the new position for a position of the source; None if its partition is dropped."""
        changed_partition = self._by_partition.get(position.partition)
        return position if changed_partition is None else changed_partition.new_position(position)

"""What is declared to be otherwise with the partitions of Kafka sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rescale.flink.kafka.position import Position, StartAt, TopicPartition


@dataclass(frozen=True)
class ChangedPartition:
    """A partition that a source reads on from elsewhere, that is called otherwise, or that it has no more.

    `next` is the offset of the next record as the snapshot has it, None where it has none for the partition. `new_next`
    is the one that it gets, `new_topic` the name of its topic, None where that stays.
    """

    topic: str
    partition: int
    next: int | StartAt | None
    new_next: int | StartAt | None
    dropped: bool = False
    new_topic: str | None = None

    def applied(self, position: Position) -> Position | None:
        """What becomes of a position in the partition; None if it is dropped."""
        if self.dropped:
            return None
        following = position.next if self.new_next is None else self.new_next
        partition = position.partition._replace(topic=self.new_topic or self.topic)
        return position._replace(partition=partition, next=following)


@dataclass(frozen=True)
class KafkaChange:
    """What is otherwise with the partitions of the operator that has the id before any renaming.

    `becomes_source`: it is a `FlinkKafkaConsumer`, and its offsets become the splits of a `KafkaSource`.
    """

    operator_id: str
    label: str
    kind: str
    partitions: tuple[ChangedPartition, ...]
    becomes_source: bool = False

    @cached_property
    def _by_partition(self) -> dict[TopicPartition, ChangedPartition]:
        return {TopicPartition(one.topic, one.partition): one for one in self.partitions}

    def applied(self, position: Position) -> Position | None:
        """What becomes of a position of the source; None if it is left out."""
        changed = self._by_partition.get(position.partition)
        return position if changed is None else changed.applied(position)

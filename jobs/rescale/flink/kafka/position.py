"""A position in a Kafka partition, and which subtask reads the partition.

`KafkaSourceEnumerator.getSplitOwner` and the older `KafkaTopicPartitionAssigner.assign` agree: a topic's name gives the
subtask of its partition 0, the next partition belongs to the next subtask, and so on around. The `FlinkKafkaConsumer`
deals all its partitions so at every restore. A `KafkaSource` deals so what it discovers; what its readers held at a
snapshot lies in a list state, and is dealt in turn at another parallelism.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.redistribution import java_string_hash

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Names that Kafka accepts (`org.apache.kafka.common.internals.Topic`)."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class StartAt(StrEnum):
    """Where reading begins if there is no offset yet; `UNSET`: wherever the job's starting offsets say."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    UNSET = "unset"


class Position(NamedTuple):
    """`next` is the offset of the next record to read; `stop` that of the first one not to read, None for no end."""

    partition: TopicPartition
    next: int | StartAt
    stop: int | StartAt | None = None


def owner(topic: str, partition: int, parallelism: int) -> int:
    """The subtask that reads a partition, where the connector places it by its name."""
    start = (java_string_hash(topic) * 31 & 0x7FFFFFFF) % parallelism
    return (start + partition) % parallelism


def is_topic(name: str) -> bool:
    """Whether Kafka accepts it as the name of a topic."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def checked_partition(reader: ByteReader, at: int, topic: str, partition: int) -> TopicPartition:
    """The partition; `SnapshotError` where Kafka cannot have such a one."""
    if not is_topic(topic):
        raise reader.error("not the name of a Kafka topic", at=at, found=topic)
    if partition < 0:
        raise reader.error("not the number of a Kafka partition", at=at, expected="0 or more", found=partition)
    return TopicPartition(topic, partition)

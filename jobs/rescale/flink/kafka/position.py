"""Position in a Kafka partition, and the subtask that reads the partition.

`KafkaSourceEnumerator.getSplitOwner` and the older `KafkaTopicPartitionAssigner.assign` agree: the name of a topic
determines the subtask of its partition 0, and the following partitions go to the following subtasks, round robin. A
`FlinkKafkaConsumer` assigns all partitions this way at each restore. A `KafkaSource` assigns only newly discovered
partitions this way: the splits of its readers lie in a list state, which Flink redistributes at another parallelism.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keys.java_strings import java_string_hash

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Pattern of the topic names that Kafka accepts (`org.apache.kafka.common.internals.Topic`)."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class StartAt(StrEnum):
    """Start of a partition that has no offset; with `UNSET`, the job's configuration decides where reading starts."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    UNSET = "unset"


class Position(NamedTuple):
    """Position in a partition: offset of the next record to read, and offset at which reading stops (None: no end)."""

    partition: TopicPartition
    next: int | StartAt
    stop: int | StartAt | None = None


def owning_subtask(topic: str, partition: int, parallelism: int) -> int:
    """Return the subtask to which the connector assigns a partition by the name of its topic."""
    first_subtask = (java_string_hash(topic) * 31 & 0x7FFFFFFF) % parallelism
    return (first_subtask + partition) % parallelism


def is_topic(name: str) -> bool:
    """Whether Kafka accepts the name for a topic."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def checked_partition(reader: ByteReader, at: int, topic: str, partition: int) -> TopicPartition:
    """Return the partition. Raises `SnapshotError` at offset `at` if Kafka does not accept its topic or number."""
    if not is_topic(topic):
        raise reader.error("not the name of a Kafka topic", at=at, found=topic)
    if partition < 0:
        raise reader.error("not the number of a Kafka partition", at=at, expected="0 or more", found=partition)
    return TopicPartition(topic, partition)

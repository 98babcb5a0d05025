"""The splits of the `KafkaSource` that reads on where a `FlinkKafkaConsumer` stood.

Each element of the union becomes a split of the subtask that stored it, and all partitions are in the enumerator's book
as assigned: only those are new to the job for which there was no offset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rescale.errors import UnsupportedError
from rescale.flink.kafka.position import Position, StartAt, TopicPartition


def splits_of(stored: Iterable[tuple[int, Position]]) -> dict[int, list[Position]]:
    """By subtask, of what each has stored of the union; a partition is one split, of the first that stored it.

    `UnsupportedError` if there are several offsets for a partition, or none.
    """
    splits: dict[int, list[Position]] = defaultdict(list)
    seen: dict[TopicPartition, Position] = {}
    for subtask, position in stored:
        if position.next is StartAt.UNSET:
            raise _no_split(position, "none: the consumer had not found out yet where to begin")
        if position.partition not in seen:
            seen[position.partition] = position
            splits[subtask].append(position)
        elif seen[position.partition] != position:
            raise _no_split(position, f"{seen[position.partition].next} and {position.next}")
    return splits


def _no_split(position: Position, found: str) -> UnsupportedError:
    return UnsupportedError(
        f"{position.partition} has not one offset, as a split of a KafkaSource needs it",
        expected="one offset",
        found=found,
        advice="say from where it shall be read: --kafka-offsets",
    )

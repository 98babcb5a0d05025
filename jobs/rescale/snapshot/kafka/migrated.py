"""The splits of a `KafkaSource` that continues a `FlinkKafkaConsumer`.

Each element of the consumer's union state becomes a split of the subtask that stored it. The enumerator's state lists
all these partitions as assigned, so the job treats only partitions without an offset as new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rescale.flink.kafka.position import Position, StartAt, TopicPartition
from rescale.text.advice import Advice, mention
from rescale.text.errors import UnsupportedError


def splits_of(stored_positions: Iterable[tuple[int, Position]]) -> dict[int, list[Position]]:
    """Return the splits of each subtask from the (subtask, position) pairs of the union state.

    A partition that several subtasks stored becomes a split of the first subtask. Raises `UnsupportedError` if a
    partition does not have exactly one offset.
    """
    splits_by_subtask: dict[int, list[Position]] = defaultdict(list)
    first_positions: dict[TopicPartition, Position] = {}
    for subtask, position in stored_positions:
        if position.next is StartAt.UNSET:
            raise _no_split_error(position, "none: the consumer had not determined its first offset yet")
        if position.partition not in first_positions:
            first_positions[position.partition] = position
            splits_by_subtask[subtask].append(position)
        elif first_positions[position.partition] != position:
            raise _no_split_error(position, f"{first_positions[position.partition].next} and {position.next}")
    return splits_by_subtask


def _no_split_error(position: Position, offsets: str) -> UnsupportedError:
    return UnsupportedError(
        f"{position.partition} does not have exactly one offset, as a split of a KafkaSource must",
        expected="one offset",
        found=offsets,
        advice=Advice("set the offset to read from: ", mention("kafka-offsets")),
    )

"""What the harness writes to Kafka (`harness.kafka.Topics`)."""

from __future__ import annotations

from collections.abc import Iterator

from rescale.flink.kafka.position import TopicPartition

_LONG = "a-topic-with-so-long-a-name-that-it-is-written-another-way-than-a-shorter-one"


def records(seed: int, phase: int) -> list[str]:
    """The records of one phase, sorted."""
    return sorted(
        f"{topic}/{partition}/{number}"
        for topic, partition, _ in _partitions(seed, phase)
        for number in range(_before(phase, partition), _before(phase + 1, partition))
    )


def totals(seed: int, phase: int) -> dict[str, int | str]:
    """By partition, how many records there were before a phase."""
    return {
        f"{topic}-{partition}": _before(phase, partition) - _before(since, partition)
        for topic, partition, since in _partitions(seed, phase - 1)
    }


def late_partition(seed: int) -> TopicPartition:
    """The one that appears in phase 2."""
    return TopicPartition(f"orders-{seed}", 3)


def _partitions(seed: int, phase: int) -> Iterator[tuple[str, int, int]]:
    """Topic, partition, and the phase that it is there since."""
    for i, name in enumerate(("orders", _LONG)):
        for partition in range(3 + 2 * i):
            yield f"{name}-{seed}", partition, 0
    if phase >= 2:
        yield *late_partition(seed), 2


def _before(phase: int, partition: int) -> int:
    return phase * (20 + 3 * partition)

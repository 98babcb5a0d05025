"""What the harness writes to Kafka (`harness.kafka.Topics`)."""

from __future__ import annotations

from collections.abc import Iterator

_LONG = "a-topic-with-so-long-a-name-that-it-is-written-another-way-than-a-shorter-one"


def records(seed: int, phase: int) -> list[str]:
    """The records of one phase, sorted."""
    return sorted(
        f"{topic}/{partition}/{number}"
        for topic, partition in _partitions(seed)
        for number in range(_before(phase, partition), _before(phase + 1, partition))
    )


def totals(seed: int, phase: int) -> dict[str, int | str]:
    """By partition, how many records there were before a phase."""
    return {f"{topic}-{partition}": _before(phase, partition) for topic, partition in _partitions(seed)}


def _partitions(seed: int) -> Iterator[tuple[str, int]]:
    for i, name in enumerate(("orders", _LONG)):
        for partition in range(3 + 2 * i):
            yield f"{name}-{seed}", partition


def _before(phase: int, partition: int) -> int:
    return phase * (20 + 3 * partition)

"""That the Kafka sources of a result read on where it was declared, as the result's own bytes say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rescale.errors import IntegrityError
from rescale.flink.kafka.position import Position, StartAt, TopicPartition
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.kafka.offsets import KafkaOffsets, kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import Surgery

_SHOWN = 5


class _Books(NamedTuple):
    """All positions of a source: at readers, and in the enumerator's book; what that has assigned without offsets."""

    held: Sequence[Position] = ()
    waiting: Sequence[Position] = ()
    assigned: Sequence[Position] = ()


def check_offsets(source: Snapshot, result: Snapshot, surgery: Surgery) -> None:
    """`source` is the one before the surgery; `IntegrityError` if the result's offsets are not what was declared."""
    if not surgery.kafka:
        return
    before, after = (
        {offsets.operator.operator_id: _books(offsets) for offsets in kafka_offsets(snapshot)}
        for snapshot in (source, result)
    )
    for change in surgery.kafka:
        new_id = surgery.new_ids.get(change.operator_id, change.operator_id)
        old = before.get(change.operator_id, _Books())
        _check_there(old, change)
        # By its bytes, a source without any partition may be another than Kafka's.
        _check_equal(_after(old, change), after.get(new_id, _Books()), change)


def _check_there(old: _Books, change: KafkaChange) -> None:
    """What was declared to change are partitions of the source, which had the offsets that were declared, or none."""
    stored: dict[TopicPartition, set[Position]] = {one.partition: set() for one in old.assigned}
    for position in (*old.held, *old.waiting):
        stored.setdefault(position.partition, set()).add(position)
    for one in change.partitions:
        partition = TopicPartition(one.topic, one.partition)
        offsets = {position.next for position in stored.get(partition, ())}
        has_none = partition in stored and offsets <= {StartAt.UNSET}
        if one.next not in offsets and (one.next is not None or not has_none):
            raise IntegrityError(
                "a Kafka offset that was declared as changed is none of the source's",
                operator=change.label,
                expected=f"{partition} from {one.next}",
                found=_named(stored.get(partition, set())),
                advice="compare the result with the snapshot that it was made of",
            )


def _check_equal(expected: _Books, found: _Books, change: KafkaChange) -> None:
    for what, asked, there in zip(("held", "waiting", "assigned"), expected, found, strict=True):
        if Counter(asked) != Counter(there):
            raise IntegrityError(
                f"the Kafka partitions that are {what} are not those that were declared",
                operator=change.label,
                expected=_named(set(asked) - set(there)),
                found=_named(set(there) - set(asked)),
            )


def _books(offsets: KafkaOffsets) -> _Books:
    if offsets.enumerator is None:
        return _Books(offsets.held)
    assigned = [Position(partition, StartAt.UNSET) for partition in offsets.enumerator.assigned]
    return _Books(offsets.held, offsets.enumerator.unassigned, assigned)


def _after(old: _Books, change: KafkaChange) -> _Books:
    """A partition of the union, which may be stored more than once, becomes one split and is assigned."""
    held, waiting, assigned = ([new for one in of if (new := change.applied(one)) is not None] for of in old)
    if change.becomes_source:
        held = list(dict.fromkeys(held))
        assigned = held
    return _Books(held, waiting, [Position(one.partition, StartAt.UNSET) for one in assigned])


def _named(positions: set[Position]) -> str:
    names = sorted(f"{one.partition} from {one.next}" for one in positions)
    return ", ".join(names[:_SHOWN]) or "none"

"""Check of declared Kafka offsets: reads from the result's bytes where each partition starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rescale.flink.kafka.position import Position, StartAt, TopicPartition
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.kafka.offsets import KafkaOffsets, kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import Surgery
from rescale.text.errors import IntegrityError

_MOST_POSITIONS_SHOWN = 5


class _SourcePositions(NamedTuple):
    """Positions of a Kafka source: of splits that readers hold, that wait in the enumerator, and that are assigned."""

    held: Sequence[Position] = ()
    waiting: Sequence[Position] = ()
    assigned: Sequence[Position] = ()


def check_offsets(source: Snapshot, result: Snapshot, surgery: Surgery) -> None:
    """Compare the result's Kafka offsets with those of `source` (before the surgery), changed as declared.

    Raises `IntegrityError` if the result has other offsets.
    """
    if not surgery.kafka:
        return
    before, after = (
        {offsets.operator.operator_id: _source_positions(offsets) for offsets in kafka_offsets(snapshot)}
        for snapshot in (source, result)
    )
    for change in surgery.kafka:
        new_id = surgery.new_ids.get(change.operator_id, change.operator_id)
        old = before.get(change.operator_id, _SourcePositions())
        _check_stored(old, change)
        # A source without any partition cannot be recognized as Kafka's by its bytes.
        _check_equal(_positions_after(old, change), after.get(new_id, _SourcePositions()), change)


def _check_stored(old: _SourcePositions, change: KafkaChange) -> None:
    """Check that the source has the partitions that were declared to change, with the declared old offsets.

    If no old offset was declared for a partition (None), the source must have the partition without an offset.
    """
    stored_positions: dict[TopicPartition, set[Position]] = {position.partition: set() for position in old.assigned}
    for position in (*old.held, *old.waiting):
        stored_positions.setdefault(position.partition, set()).add(position)
    for declared in change.partitions:
        partition = TopicPartition(declared.topic, declared.partition)
        offsets = {position.next for position in stored_positions.get(partition, ())}
        has_no_offset = partition in stored_positions and offsets <= {StartAt.UNSET}
        if declared.next not in offsets and (declared.next is not None or not has_no_offset):
            raise IntegrityError(
                "the source does not have a Kafka offset that was declared as changed",
                operator=change.label,
                expected=f"{partition} from {declared.next}",
                found=_position_text(stored_positions.get(partition, set())),
                advice="compare the result with the snapshot that it was made from",
            )


def _check_equal(expected: _SourcePositions, actual_positions: _SourcePositions, change: KafkaChange) -> None:
    for role, declared, actual in zip(
        ("held by readers", "waiting in the enumerator", "assigned"), expected, actual_positions, strict=True
    ):
        if Counter(declared) != Counter(actual):
            raise IntegrityError(
                f"the Kafka partitions {role} are not the declared ones",
                operator=change.label,
                expected=_position_text(set(declared) - set(actual)),
                found=_position_text(set(actual) - set(declared)),
            )


def _source_positions(offsets: KafkaOffsets) -> _SourcePositions:
    if offsets.enumerator is None:
        return _SourcePositions(offsets.positions)
    assigned = [Position(partition, StartAt.UNSET) for partition in offsets.enumerator.assigned]
    return _SourcePositions(offsets.positions, offsets.enumerator.unassigned, assigned)


def _positions_after(old: _SourcePositions, change: KafkaChange) -> _SourcePositions:
    """Return the positions that an operator must have after the change.

    If the operator becomes a `KafkaSource`, each partition of its union state becomes one split and is assigned.
    """
    held, waiting, assigned = (
        [new for position in positions if (new := change.new_position(position)) is not None] for positions in old
    )
    if change.becomes_source:
        held = list(dict.fromkeys(held))
        assigned = held
    return _SourcePositions(held, waiting, [Position(position.partition, StartAt.UNSET) for position in assigned])


def _position_text(positions: set[Position]) -> str:
    names = sorted(f"{position.partition} from {position.next}" for position in positions)
    return ", ".join(names[:_MOST_POSITIONS_SHOWN]) or "none"

"""Clause that excepts dropped and changed state in sentences about all state."""

from __future__ import annotations

import pytest

from rescale.report.pages.declared import exceptions_clause
from rescale.snapshot.dropped_states import DroppedState
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.surgery import NO_SURGERY, Dropped, Renamed, Surgery

ID = "ab" * 16
RENAMED_OPERATOR = Renamed(ID, "totals", "cd" * 16, "sums", "sums")
DROPPED_OPERATOR = Dropped(ID, "totals", 1234, ())
DROPPED_STATE = DroppedState(ID, "totals", "sum", "UNION", 3, 12, 12)


def surgery_of_offsets(*partitions: ChangedPartition) -> Surgery:
    return Surgery(kafka=(KafkaChange(ID, "orders", "KafkaSource", partitions),))


CHANGED_OFFSET = ChangedPartition("orders", 0, 5, 7)
NEW_TOPIC_OFFSET = ChangedPartition("orders", 1, 5, None, new_topic="mirror")
DROPPED_OFFSET = ChangedPartition("orders", 2, 5, None, dropped=True)


@pytest.mark.parametrize(
    ("surgery", "sentence"),
    [
        (NO_SURGERY, ""),
        (Surgery(renamed=(RENAMED_OPERATOR,)), ""),
        (surgery_of_offsets(NEW_TOPIC_OFFSET), ""),
        (Surgery(dropped=(DROPPED_OPERATOR,)), " except what was dropped (1 operator)"),
        (Surgery(dropped_states=(DROPPED_STATE, DROPPED_STATE)), " except what was dropped (2 states)"),
        (surgery_of_offsets(DROPPED_OFFSET, NEW_TOPIC_OFFSET), " except what was dropped (1 Kafka offset)"),
        (surgery_of_offsets(CHANGED_OFFSET, CHANGED_OFFSET), " except what was changed (2 Kafka offsets)"),
        (
            Surgery(
                (RENAMED_OPERATOR,),
                (DROPPED_OPERATOR,),
                surgery_of_offsets(CHANGED_OFFSET, DROPPED_OFFSET).kafka,
                (DROPPED_STATE,),
            ),
            " except what was dropped (1 operator, 1 state, 1 Kafka offset) and changed (1 Kafka offset)",
        ),
    ],
)
def test_sentence_about_all_state_names_what_was_dropped_or_changed(surgery: Surgery, sentence: str) -> None:
    assert exceptions_clause(surgery) == sentence

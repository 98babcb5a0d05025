"""Clause that excepts dropped and changed state in sentences about all state."""

from __future__ import annotations

import pytest

from rescale.report.pages.declared import exceptions_clause
from rescale.snapshot.dropped_states import DroppedState
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.surgery import NO_SURGERY, Dropped, Renamed, Surgery

ID = "ab" * 16
RENAMED = Renamed(ID, "totals", "cd" * 16, "sums", "sums")
OPERATOR = Dropped(ID, "totals", 1234, ())
STATE = DroppedState(ID, "totals", "sum", "UNION", 3, 12, 12)


def offsets(*partitions: ChangedPartition) -> Surgery:
    return Surgery(kafka=(KafkaChange(ID, "orders", "KafkaSource", partitions),))


MOVED = ChangedPartition("orders", 0, 5, 7)
WITH_NEW_TOPIC = ChangedPartition("orders", 1, 5, None, new_topic="mirror")
LEFT_OUT = ChangedPartition("orders", 2, 5, None, dropped=True)


@pytest.mark.parametrize(
    ("surgery", "sentence"),
    [
        (NO_SURGERY, ""),
        (Surgery(renamed=(RENAMED,)), ""),
        (offsets(WITH_NEW_TOPIC), ""),
        (Surgery(dropped=(OPERATOR,)), " except what was dropped (1 operator)"),
        (Surgery(dropped_states=(STATE, STATE)), " except what was dropped (2 states)"),
        (offsets(LEFT_OUT, WITH_NEW_TOPIC), " except what was dropped (1 Kafka offset)"),
        (offsets(MOVED, MOVED), " except what was changed (2 Kafka offsets)"),
        (
            Surgery((RENAMED,), (OPERATOR,), offsets(MOVED, LEFT_OUT).kafka, (STATE,)),
            " except what was dropped (1 operator, 1 state, 1 Kafka offset) and changed (1 Kafka offset)",
        ),
    ],
)
def test_sentence_about_all_state_names_what_was_dropped_or_changed(surgery: Surgery, sentence: str) -> None:
    assert exceptions_clause(surgery) == sentence

"""Sentences about what a request changes besides shapes."""

from __future__ import annotations

import pytest

from rescale.planning.warnings.warnings import surgery_warnings
from rescale.snapshot.dropped_states import DroppedState
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.surgery import Dropped, LostState, Restarted, Surgery

ID = "ab" * 16


def warnings_of(surgery: Surgery, *, is_stopped: bool = False) -> list[str]:
    return list(surgery_warnings(surgery, is_stopped=is_stopped))


def kafka_change(*partitions: ChangedPartition, becomes_source: bool = False) -> Surgery:
    return Surgery(kafka=(KafkaChange(ID, "clicks", "source", partitions, becomes_source),))


def test_dropped_operators_are_one_sentence_with_their_bytes() -> None:
    lost_state = LostState("sum", "VALUE", None)
    (sentence,) = warnings_of(Surgery(dropped=(Dropped(ID, "a", 1000, (lost_state,)), Dropped(ID, "b", 234, ()))))
    assert sentence == "a, b: dropped, as requested; 1,234 bytes of state are not in the result"


def test_changed_offsets_need_no_warning() -> None:
    assert warnings_of(kafka_change(ChangedPartition("t", 0, 5, 7))) == []


def test_renamed_topics_are_named_once_for_all_partitions() -> None:
    partitions = [ChangedPartition("old", number, 5, None, new_topic="new") for number in range(3)]
    (sentence,) = warnings_of(kafka_change(*partitions))
    assert sentence.startswith("clicks: its offsets in old become offsets in new")


def test_first_dropped_partitions_are_named() -> None:
    (sentence,) = warnings_of(
        kafka_change(*(ChangedPartition("t", number, 5, None, dropped=True) for number in range(8)))
    )
    assert "t-0, t-1" in sentence
    assert "t-7" not in sentence
    assert "reads it from its earliest record" in sentence


@pytest.mark.parametrize("is_stopped", [False, True])
def test_consumer_of_a_stopped_job_has_old_offsets(*, is_stopped: bool) -> None:
    sentences = warnings_of(kafka_change(becomes_source=True), is_stopped=is_stopped)
    assert "its offsets become those of a KafkaSource" in sentences[0]
    assert ["later records are read twice" in sentence for sentence in sentences[1:]] == [True] * is_stopped


@pytest.mark.parametrize("is_assigned", [False, True])
def test_source_without_assigned_splits_reads_again(*, is_assigned: bool) -> None:
    (sentence,) = warnings_of(Surgery(restarted=(Restarted(ID, "lines", 1, 2, is_assigned),)))
    assert ("reads their input again" in sentence) is not is_assigned


@pytest.mark.parametrize(("elements", "is_rewritten"), [(None, True), (3, False)])
def test_dropped_keyed_state_rewrites_all_records(*, elements: int | None, is_rewritten: bool) -> None:
    state = DroppedState(ID, "counts", "sum", "VALUE", elements, 100, 100)
    (sentence,) = warnings_of(Surgery(dropped_states=(state,)))
    assert sentence.startswith("counts: the state sum is dropped, as requested")
    assert ("rewritten" in sentence) is is_rewritten

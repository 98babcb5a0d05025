"""Describes the declared differences between a source and its result in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from rescale.flink.keyed.ttl.last_access import format_time
from rescale.flink.metadata.handles import DistributionMode
from rescale.runstate.certificate import Certificate, CertifiedOldRows
from rescale.snapshot.dropped_states import DroppedState
from rescale.snapshot.kafka.changes import ChangedPartition, KafkaChange
from rescale.snapshot.old_rows import OldRows
from rescale.snapshot.surgery import Dropped, LostState, Renamed, Restarted, Surgery
from rescale.text.names import first_of
from rescale.text.units import counted, human_bytes

DECLARED = "Declared differences"

_MOST_SHOWN = 10
"""Largest number of partitions that a sentence names; the JSON has all."""


RecordCounts = dict[tuple[str, str], int]
"""Number of records of each dropped keyed state, by (operator id after a rename, state)."""

OldRowCounts = dict[tuple[str, str], CertifiedOldRows]
"""Numbers of old rows that were left out of each state, by (operator id after a rename, state)."""


def declared_lines(surgery: Surgery) -> list[str]:
    """Return a sentence for each difference that a `Surgery` declares."""
    return list(_lines_of_changes(surgery, {}, {}))


def first_lines(lines: list[str], limit: int) -> list[str]:
    """Return the first `limit` lines, then a line with the number of the others."""
    number_omitted = len(lines) - limit
    return (
        [*lines[:limit], f"{counted(number_omitted, 'other difference')}, listed in the plan"]
        if number_omitted > 0
        else lines
    )


def exceptions_clause(surgery: Surgery) -> str:
    """Return a clause to follow "all state", such as " except what was dropped (2 states)"; "" without exceptions."""
    partitions = [partition for change in surgery.kafka for partition in change.partitions]
    operator_count, state_count = len(surgery.dropped), len(surgery.dropped_states)
    offset_count = sum(partition.dropped for partition in partitions)
    changed_offset_count = sum(partition.new_next is not None for partition in partitions)
    old_rows_text = f"old rows of {counted(len(surgery.old_rows), 'state')}" if surgery.old_rows else ""
    counts_by_verb = (
        ("left out", old_rows_text),
        ("dropped", _counts_text((operator_count, "operator"), (state_count, "state"), (offset_count, "Kafka offset"))),
        ("changed", _counts_text((changed_offset_count, "Kafka offset"))),
    )
    clause = " and ".join(f"{verb} ({counts_text})" for verb, counts_text in counts_by_verb if counts_text)
    return f" except what was {clause}" if clause else ""


def certified_lines(certificate: Certificate) -> list[str]:
    """Return the `declared_lines` of a certificate, with the numbers of dropped records and of old rows."""
    record_counts = {
        (proof.operator_id, state): record_count
        for proof in certificate.operators
        if proof.records is not None
        for state, record_count in proof.records.left_out.items()
    }
    old_row_counts_by_state = {
        (proof.operator_id, state): old_row_counts
        for proof in certificate.operators
        if proof.records is not None
        for state, old_row_counts in proof.records.old_rows.items()
    }
    return list(_lines_of_changes(certificate.surgery, record_counts, old_row_counts_by_state))


def _counts_text(*parts: tuple[int, str]) -> str:
    return ", ".join(counted(count, noun) for count, noun in parts if count)


def _lines_of_changes(surgery: Surgery, dropped_records: RecordCounts, old_rows: OldRowCounts) -> Iterator[str]:
    new_ids = surgery.new_ids
    for operator in surgery.renamed:
        new_text = f"{operator.uid} ({operator.new_operator_id})" if operator.uid else operator.new_operator_id
        yield f"{_label(operator)} is renamed to {new_text}"
    for dropped in surgery.dropped:
        states_text = ", ".join(map(_state_text, dropped.states))
        losses_text = f"{human_bytes(dropped.bytes)} of state are lost"
        yield f"{_label(dropped)} is dropped: {losses_text}{': ' if states_text else ''}{states_text}"
    for state in surgery.dropped_states:
        record_count = dropped_records.get((new_ids.get(state.operator_id, state.operator_id), state.name))
        losses_text = (
            f"{counted(record_count, 'record')}, {_lost_bytes_phrase(state)},"
            if record_count is not None
            else _lost_bytes_phrase(state)
        )
        yield f"the state {_state_text(state)} of {_label(state)} is dropped: {losses_text} are lost"
    for rows in surgery.old_rows:
        left_out = old_rows.get((new_ids.get(rows.operator_id, rows.operator_id), rows.name))
        yield (
            f"the state {rows.name} ({rows.type}) of {_label(rows)} loses the rows that were last accessed at or "
            f"before {format_time(rows.until)}: {_old_rows_phrase(rows, left_out)}"
        )
    for restarted in surgery.restarted:
        yield f"{_finished_phrase(restarted)} of {_label(restarted)} run again: {_repeated_input_phrase(restarted)}"
    for change in surgery.kafka:
        yield from _offset_lines(change)


def _offset_lines(change: KafkaChange) -> Iterator[str]:
    """Yield a sentence for each kind of change to the offsets of a Kafka source."""
    source_text = f"{change.label} ({change.kind})"
    moved_texts = [_moved_offset_text(partition) for partition in change.partitions if partition.new_next is not None]
    dropped_texts = [_partition_text(partition) for partition in change.partitions if partition.dropped]
    if change.becomes_source:
        yield f"{source_text} becomes a KafkaSource: its offsets become splits, all of them in the enumerator's state"
    new_topic_by_topic = {p.topic: p.new_topic for p in change.partitions if p.new_topic is not None}
    for topic, new_topic in new_topic_by_topic.items():
        yield f"{source_text}: the topic {topic} is renamed to {new_topic}"
    if moved_texts:
        moved_text = counted(len(moved_texts), "partition")
        yield f"{source_text} reads {moved_text} from another offset: {first_of(moved_texts, _MOST_SHOWN)}"
    if dropped_texts:
        dropped_text = counted(len(dropped_texts), "partition")
        yield f"{source_text} loses the offsets of {dropped_text}: {first_of(dropped_texts, _MOST_SHOWN)}"


def _moved_offset_text(partition: ChangedPartition) -> str:
    """Return the old and the new offset of a partition and the distance between them.

    The distance is an upper bound of the number of records that are skipped or read again.
    """
    offset_before, offset_after = partition.next, partition.new_next
    move_text = f"{_partition_text(partition)} from {offset_after} instead of {offset_before}"
    if not isinstance(offset_before, int) or not isinstance(offset_after, int):
        return move_text
    effect = "skipped" if offset_after > offset_before else "read again"
    return f"{move_text} ({abs(offset_after - offset_before):,} {effect})"


def _partition_text(partition: ChangedPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _finished_phrase(restarted: Restarted) -> str:
    if restarted.finished == restarted.parallelism:
        return f"all {restarted.finished} finished subtasks" if restarted.finished > 1 else "the finished subtask"
    return f"{restarted.finished} finished of {counted(restarted.parallelism, 'subtask')}"


def _repeated_input_phrase(restarted: Restarted) -> str:
    if restarted.assigned:
        return "they get the splits that no subtask has finished, and read no finished split again"
    return (
        "they begin without state; a source reads their input again, and all operators after it get these "
        "records a second time"
    )


def _old_rows_phrase(rows: OldRows, left_out: CertifiedOldRows | None) -> str:
    """Return a phrase for the old rows that are left out; before the run, it says that the run counts them."""
    if left_out is None:
        return f"the run counts them, in {human_bytes(rows.of_bytes)} of keyed state"
    rows_text = counted(left_out.rows, "row")
    return f"{rows_text}, {counted(left_out.elements, 'list element')} in all" if left_out.elements else rows_text


def _label(operator: Renamed | Dropped | DroppedState | Restarted | OldRows) -> str:
    old_label, operator_id = operator.label, operator.operator_id
    return old_label if operator_id in old_label else f"{old_label} ({operator_id})"


def _lost_bytes_phrase(state: DroppedState) -> str:
    """Return a phrase for the size of a dropped state, as far as it is known."""
    if state.bytes is not None:
        return human_bytes(state.bytes)
    total_text = f"{human_bytes(state.of_bytes)} of keyed state"
    if state.stored_bytes is None:
        return f"some of {total_text}"
    return f"{human_bytes(state.stored_bytes)} in files of RocksDB, out of {total_text}"


def _state_text(state: LostState | DroppedState) -> str:
    if state.elements is None:
        return f"{state.name} ({state.type})"
    noun = ("copy", "copies") if DistributionMode.BROADCAST.name in state.type else ("element", "elements")
    return f"{state.name} ({state.type}, {counted(state.elements, *noun)})"

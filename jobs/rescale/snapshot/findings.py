"""Findings about a snapshot, as sentences for the user. `inspect` prints them, and plans repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescale.snapshot.kafka.audit import audit, stopped_consumers
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.losses import lost_timer_warnings, mislaid_file_warnings
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.moves import is_checkpoint_directory, moved_place
from rescale.text.names import first_of

_MOST_NAMED = 5


def findings(snapshot: Snapshot, source_offsets: Sequence[KafkaOffsets] = ()) -> list[str]:
    """Return a sentence for each finding, the worst first.

    `source_offsets` are the offsets of the Kafka sources; empty if the caller has not read them.
    """
    return [
        *mislaid_file_warnings(snapshot),
        *_missing_file_findings(snapshot.missing_files),
        *_moved_file_findings(snapshot),
        *lost_timer_warnings(snapshot),
        *(sentence for operator in snapshot.operators for sentence in _misplaced_key_group_findings(operator)),
        *map(str, stopped_consumers(snapshot)),
        *map(str, audit(source_offsets)),
        *_checkpoint_findings(snapshot),
    ]


def _missing_file_findings(missing_files: Sequence[str]) -> Iterator[str]:
    if missing_files:
        yield f"files that the snapshot refers to are gone: {first_of(missing_files, _MOST_NAMED)}"


def _moved_file_findings(snapshot: Snapshot) -> Iterator[str]:
    for move in snapshot.moves:
        file_count = sum(
            moved_place(path, snapshot.moves) == moved_place(path, (move,)) for path in snapshot.moved_paths
        )
        if file_count:
            yield (
                f"the snapshot was moved: {file_count} files are read below {move.new} instead of {move.old}, where "
                "the state handles place them and Flink would look for them"
            )


def _misplaced_key_group_findings(operator: Operator) -> Iterator[str]:
    """Yield findings about key groups in the keyed state of the wrong subtask, of two subtasks, or of none.

    At the stored parallelism, Flink restores such state without a check.
    """
    for streams in (operator.managed_keyed, operator.raw_keyed):
        subtask_by_key_group: dict[int, int] = {}
        stateless_subtasks = {subtask.index for subtask in operator.entry.subtasks} - {
            stream.subtask for stream in streams
        }
        for stream in streams:
            assigned_groups = operator.key_groups_of(stream.subtask)
            if stream.key_groups != assigned_groups:
                yield (
                    f"{operator.label}: subtask {stream.subtask} of {operator.parallelism} owns key groups "
                    f"{assigned_groups} but its keyed state holds {stream.key_groups}; if the job starts at "
                    f"parallelism {operator.parallelism}, Flink silently drops the key groups that the subtask "
                    "does not own"
                )
            for key_group in stream.key_groups:
                if key_group in subtask_by_key_group:
                    yield (
                        f"{operator.label}: key group {key_group} lies in the keyed state of subtasks "
                        f"{subtask_by_key_group[key_group]} and {stream.subtask}"
                    )
                    break
                subtask_by_key_group[key_group] = stream.subtask
        if streams:
            groups_of_stateless = {
                key_group for subtask in stateless_subtasks for key_group in operator.key_groups_of(subtask)
            }
            unheld_groups = [
                g
                for g in range(operator.max_parallelism)
                if g not in subtask_by_key_group and g not in groups_of_stateless
            ]
            if unheld_groups:
                yield (
                    f"{operator.label}: {len(unheld_groups)} key groups lie in no subtask's keyed state, such as "
                    f"{unheld_groups[0]}"
                )


def _checkpoint_findings(snapshot: Snapshot) -> Iterator[str]:
    if is_checkpoint_directory(snapshot.directory):
        yield (
            "this is a checkpoint: while its job runs, Flink may delete its files at any time, and then this run "
            "fails. Stop the job, or take a savepoint"
        )

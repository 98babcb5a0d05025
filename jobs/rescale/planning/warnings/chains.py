"""Warnings about chains of operators, which a snapshot does not describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_NAMES
from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.request.operator_shapes import Shape
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.names import first_of

_MOST_SHOWN = 5
"""Largest number of operators that a warning names."""


def generated_id_warnings(snapshot: Snapshot, shapes: Mapping[str, Shape]) -> Iterator[str]:
    """Yield a warning if a job leaves or reaches parallelism 1, and operators with state may have generated ids.

    An operator that always has one subtask is chained to the operator before it only if the job has parallelism 1. A
    generated id depends on which operators are chained, and on the ids of the operators before it
    (`StreamGraphHasherV2.generateDeterministicHash`).
    """
    labels_without_uid = [operator.label for operator in operators_without_uid(snapshot)]
    had_one_subtask = all(operator.parallelism == 1 for operator in snapshot.operators)
    gets_one_subtask = all(shapes[operator.operator_id].parallelism == 1 for operator in snapshot.operators)
    if had_one_subtask is gets_one_subtask or not labels_without_uid:
        return
    has_names = snapshot.metadata.version >= FIRST_VERSION_WITH_NAMES
    clause = "without a uid" if has_names else "without a uid, which Flink 1 does not store"
    change_text = (
        "the job leaves parallelism 1, so an operator that always has one subtask (such as a committer) is no longer "
        "chained to the one before it"
        if had_one_subtask
        else "the job gets parallelism 1, so an operator that always has one subtask (such as a committer) may be "
        "chained to the one before it"
    )
    yield (
        f"{change_text}. Flink then generates other ids for operators {clause}, and refuses the result because the job "
        f"lacks operators that have state in it: {first_of(labels_without_uid, _MOST_SHOWN)}. If the job has an "
        "operator that always has one subtask, match the snapshot with the job's graph at its new parallelism to see "
        "the renames that it needs. Operators with a uid keep their ids"
    )


def operators_without_uid(snapshot: Snapshot) -> list[Operator]:
    """Return the operators with state whose ids may be generated: neither uid nor label hashes to the id."""
    return [
        operator
        for operator in snapshot.operators
        if (operator.bytes or operator.entry.coordinator is not None)
        and operator_id_of_uid(operator.entry.uid or operator.label) != operator.operator_id
    ]


def shared_maximum_warnings(
    operators: Sequence[Operator], changed_operators: Sequence[Operator], shapes: Mapping[str, Shape]
) -> Iterator[str]:
    """Yield a warning about operators with one subtask that may be chained to an operator with max parallelism 1.

    A chain gets the max parallelism of its first operator (`StreamingJobGraphGenerator.createJobVertex`).
    """
    labels = [operator.label for operator in operators if shapes[operator.operator_id].max_parallelism == 1]
    if labels and any(shapes[operator.operator_id].parallelism == 1 for operator in changed_operators):
        yield (
            "Flink may chain an operator with one subtask to an operator before it that has max parallelism 1 "
            f"({first_of(labels, _MOST_SHOWN)}). Such a chain gets max parallelism 1, so Flink refuses the state of "
            "the operator with one subtask, in this result as in any snapshot. If the job has such a chain, call "
            "disableChaining between the operators, or give the operator two subtasks"
        )

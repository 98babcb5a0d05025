"""Which of its holders each key group of an operator belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rescale.errors import SnapshotError
from rescale.snapshot.model import KeyedHolder, KeyedStream, Operator

Holder = TypeVar("Holder", KeyedStream, KeyedHolder)
"""Of the state of some key groups."""


def owners_of(operator: Operator, sources: Sequence[Holder]) -> dict[int, Holder]:
    """Which stream holds each key group. `SnapshotError` where two do, or where the max parallelism is left."""
    owners: dict[int, Holder] = {}
    for source in sources:
        if not 0 <= source.key_groups.first <= source.key_groups.last < operator.max_parallelism:
            raise SnapshotError(
                "a keyed stream declares key groups that cannot be",
                operator=operator.label,
                expected=f"within 0 to {operator.max_parallelism - 1}",
                found=f"{source.key_groups} in subtask {source.subtask}",
            )
        for key_group in source.key_groups:
            if key_group in owners:
                raise SnapshotError(
                    f"key group {key_group} lies in two keyed streams",
                    operator=operator.label,
                    found=f"subtasks {owners[key_group].subtask} and {source.subtask}",
                )
            owners[key_group] = source
    return owners

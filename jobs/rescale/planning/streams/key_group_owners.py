"""Finds the owner of each key group of an operator: the old stream or directory that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rescale.snapshot.keyed_state import KeyedStateHolder, KeyedStream
from rescale.snapshot.model import Operator
from rescale.text.errors import SnapshotError

Holder = TypeVar("Holder", KeyedStream, KeyedStateHolder)
"""A stream or a directory that holds the state of some key groups."""


def owners_of(operator: Operator, sources: Sequence[Holder]) -> dict[int, Holder]:
    """Return the holder of each key group. Raises `SnapshotError` for a key group with two holders or out of range."""
    owners: dict[int, Holder] = {}
    for source in sources:
        if not 0 <= source.key_groups.first <= source.key_groups.last < operator.max_parallelism:
            raise SnapshotError(
                "a keyed stream declares key groups outside the operator's max parallelism",
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

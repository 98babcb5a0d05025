"""The three classes of work, by what becomes of the max parallelism."""

from __future__ import annotations

from enum import StrEnum


class WorkClass(StrEnum):
    """How keyed state is moved."""

    RELOCATE = "relocate"
    """It stays: whole key groups are copied, unread."""

    REGROUP = "regroup"
    """The new one divides the old one: a record's new key group is the old one modulo the new maximum."""

    REHASH = "rehash"
    """Any other: the key of every record is hashed anew."""


def work_class(max_parallelism: int, new_max_parallelism: int) -> WorkClass:
    if new_max_parallelism == max_parallelism:
        return WorkClass.RELOCATE
    return WorkClass.REHASH if max_parallelism % new_max_parallelism else WorkClass.REGROUP

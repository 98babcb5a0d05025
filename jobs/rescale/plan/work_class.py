"""Ways to move keyed state, which depend on the old and the new max parallelism."""

from __future__ import annotations

from enum import StrEnum


class WorkClass(StrEnum):
    """Way to move keyed state."""

    RELOCATE = "relocate"
    """The max parallelism stays the same, so every record keeps its key group.

    Key groups and files of RocksDB are copied whole, unless a run reads the records for a reason other than the max
    parallelism (`is_rewritten_by_record`).
    """

    REGROUP = "regroup"
    """The new max parallelism divides the old one: the new key group is the old one modulo the new max parallelism."""

    REHASH = "rehash"
    """Any other change: the new key group follows from the hash of a record's key."""


def work_class(max_parallelism: int, new_max_parallelism: int) -> WorkClass:
    """Return the way to move keyed state for this change of the max parallelism."""
    if new_max_parallelism == max_parallelism:
        return WorkClass.RELOCATE
    return WorkClass.REHASH if max_parallelism % new_max_parallelism else WorkClass.REGROUP

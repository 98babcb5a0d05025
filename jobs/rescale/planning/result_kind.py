"""What a format means for one operator: how its keyed state is kept in the result, and whether every record is read."""

from __future__ import annotations

from rescale.planning.operator_shapes import Shape
from rescale.planning.request import Format
from rescale.planning.work_class import WorkClass, work_class
from rescale.snapshot.model import Operator


def becomes_databases(operator: Operator, wanted: Format) -> bool:
    """Whether it is kept in RocksDB directories."""
    return wanted is Format.ROCKSDB or (wanted is Format.KEEP and bool(operator.databases))


def goes_by_record(operator: Operator, shape: Shape, wanted: Format) -> bool:
    """Whether records are read and framed anew: for new key groups, or in another kind of state."""
    if work_class(operator.entry.max_parallelism, shape.max_parallelism) is not WorkClass.RELOCATE:
        return True
    if wanted is Format.CANONICAL:
        return operator.becomes_canonical
    return wanted is Format.ROCKSDB and bool(operator.keyed)


def keeps_heap_timers(operator: Operator, wanted: Format) -> bool:
    """Whether its raw keyed timers stay what they are, if records are read: in canonical state there is no such thing.

    Beside canonical streams that stay so they become states, too.
    """
    return becomes_databases(operator, wanted) or (wanted is Format.KEEP and not operator.keyed)


def joins_databases(operator: Operator, shape: Shape, wanted: Format) -> bool:
    """Whether its RocksDB directories are cut and joined by their files."""
    changed = shape != Shape(operator.entry.parallelism, operator.entry.max_parallelism)
    stays = becomes_databases(operator, wanted) and not goes_by_record(operator, shape, wanted)
    return changed and stays and bool(operator.databases)

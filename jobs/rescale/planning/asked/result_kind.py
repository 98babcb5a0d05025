"""What a format means for one operator: how its keyed state is kept in the result, and whether every record is read."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.givers import Givers
from rescale.flink.keyed.heap.heap_entries import tells_entries
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.asked.request import Format
from rescale.planning.values.work_class import WorkClass, work_class
from rescale.snapshot.model import Database, KeyedStream, Operator


def becomes_databases(operator: Operator, wanted: Format) -> bool:
    """Whether it is kept in RocksDB directories."""
    if wanted is not Format.KEEP:
        return wanted is Format.ROCKSDB
    return bool(operator.databases) or any(
        isinstance(part, Database) for one in operator.changelogs for part in one.base
    )


def stays_on_heap(operator: Operator, wanted: Format) -> bool:
    """Whether it is kept in the heap's own format."""
    return wanted is Format.KEEP and bool(operator.heap_streams)


def goes_by_record(operator: Operator, shape: Shape, wanted: Format) -> bool:
    """Whether records are read and framed anew: for new key groups, under one header, or in another kind of state."""
    if work_class(operator.max_parallelism, shape.max_parallelism) is not WorkClass.RELOCATE:
        return True
    if operator.left_out or operator.changelogs:
        return True
    if wanted is Format.CANONICAL:
        return operator.becomes_canonical
    if wanted is Format.ROCKSDB:
        return bool(operator.keyed)
    return stays_on_heap(operator, wanted) and _puts_unlike_states_together(operator, shape)


def _puts_unlike_states_together(operator: Operator, shape: Shape) -> bool:
    """Whether a new stream of the heap's would come of key groups that list other states, or in another order.

    Where entries cannot be told apart, that is for others to refuse.
    """
    streams = operator.heap_streams
    if len({stream.header for stream in streams}) < 2 or not all(tells_entries(stream.parsed) for stream in streams):
        return False
    givers = Givers(streams)
    return not all(_list_the_same(givers.of(shape.key_groups_of(i))) for i in range(shape.parallelism))


def _list_the_same(streams: Sequence[KeyedStream]) -> bool:
    """Whether those with entries list the same states in the same places, and the others none beside."""
    filled = {stream.state_names for stream in streams if not stream.has_no_entry}
    known = {name for names in filled for name in names}
    return len(filled) < 2 and (not filled or all(known.issuperset(stream.state_names) for stream in streams))


def keeps_heap_timers(operator: Operator, wanted: Format) -> bool:
    """Whether its raw keyed timers stay what they are, if records are read: in canonical state there is no such thing.

    Beside canonical streams that stay so they become states, too.
    """
    return becomes_databases(operator, wanted) or (wanted is Format.KEEP and not operator.keyed)


def joins_databases(operator: Operator, shape: Shape, wanted: Format) -> bool:
    """Whether its RocksDB directories are cut and joined by their files."""
    changed = shape != Shape(operator.parallelism, operator.max_parallelism)
    stays = becomes_databases(operator, wanted) and not goes_by_record(operator, shape, wanted)
    return changed and stays and bool(operator.databases)

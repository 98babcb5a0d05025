"""Tells for one operator what a requested format means: how its keyed state is kept, and whether records are read."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.key_group_index import KeyGroupIndex
from rescale.flink.keyed.heap.heap_entries import can_delimit_entries
from rescale.plan.work_class import WorkClass, work_class
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.request.result_files import Format
from rescale.snapshot.keyed_state import Database, KeyedStream
from rescale.snapshot.model import Operator


def becomes_databases(operator: Operator, result_format: Format) -> bool:
    """Return whether the operator's keyed state is kept in RocksDB directories in the result."""
    if result_format is not Format.KEEP:
        return result_format is Format.ROCKSDB
    return bool(operator.databases) or any(
        isinstance(part, Database) for changelog in operator.changelogs for part in changelog.base
    )


def stays_on_heap(operator: Operator, result_format: Format) -> bool:
    """Return whether the operator's keyed state has the native format of the hashmap backend, in source and result."""
    return result_format is Format.KEEP and bool(operator.heap_streams)


def is_rewritten_by_record(operator: Operator, shape: Shape, result_format: Format) -> bool:
    """Return whether the operator's records are read one by one and rewritten.

    Reasons are another max parallelism, another format, dropped states, old rows to leave out, a changelog, and joined
    heap streams that list different states.
    """
    if work_class(operator.max_parallelism, shape.max_parallelism) is not WorkClass.RELOCATE:
        return True
    if operator.dropped_states or operator.cutoffs or operator.changelogs:
        return True
    if result_format is Format.CANONICAL:
        return operator.can_become_canonical
    if result_format is Format.ROCKSDB:
        return bool(operator.keyed)
    return stays_on_heap(operator, result_format) and _joins_different_states(operator, shape)


def _joins_different_states(operator: Operator, shape: Shape) -> bool:
    """Return whether a new heap stream would join key groups whose headers list different states, or another order.

    Return False if the entries cannot be read; the planner of their key groups then raises an error.
    """
    streams = operator.heap_streams
    if len({stream.header for stream in streams}) < 2 or not all(
        can_delimit_entries(stream.parsed) for stream in streams
    ):
        return False
    key_group_index = KeyGroupIndex(streams)
    return not all(
        _have_same_states(key_group_index.overlapping(shape.key_groups_of(subtask)))
        for subtask in range(shape.parallelism)
    )


def _have_same_states(streams: Sequence[KeyedStream]) -> bool:
    """Return whether the streams can share one header.

    Streams with entries must list the same states in the same order; empty streams may list fewer states.
    """
    nonempty_state_lists = {stream.state_names for stream in streams if not stream.has_no_entry}
    state_names = {name for names in nonempty_state_lists for name in names}
    return len(nonempty_state_lists) < 2 and (
        not nonempty_state_lists or all(state_names.issuperset(stream.state_names) for stream in streams)
    )


def keeps_heap_timers(operator: Operator, result_format: Format) -> bool:
    """Return whether raw keyed timers stay raw keyed state if the operator's records are rewritten.

    A canonical savepoint has no raw keyed timers, so canonical streams hold them as states.
    """
    return becomes_databases(operator, result_format) or (result_format is Format.KEEP and not operator.keyed)


def joins_databases(operator: Operator, shape: Shape, result_format: Format) -> bool:
    """Return whether new RocksDB directories are assembled from whole files of the old ones, for a new parallelism."""
    shape_changes = shape != Shape(operator.parallelism, operator.max_parallelism)
    stays_in_databases = becomes_databases(operator, result_format) and not is_rewritten_by_record(
        operator, shape, result_format
    )
    return shape_changes and stays_in_databases and bool(operator.databases)

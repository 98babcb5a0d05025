"""Removes and counts old values in records, as `YoungRecords` does with compiled loops.

Validation reads the source through `OldRecords`, and a run moves state through `YoungRecords`. The two classes share
only the loop that finds the end of a list's element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Flags, Longs
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.records import Records, framed_size
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keyed.ttl.last_access import TIME_SIZE, AgeRule, unreadable_time_error


class LeftOut(NamedTuple):
    """Numbers of rows and of list elements that were left out of a state; the elements include those of left-out rows.

    A row is a record: a value, a list, or an item of a map.
    """

    row_count: int = 0
    element_count: int = 0

    def plus(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.row_count + other.row_count, self.element_count + other.element_count)


class OldRecords:
    """Removes old values from batches of records, by the rules for some states.

    `left_out` has the numbers of removed rows and elements, by name of the state. `bytes` is the number of bytes that
    the removal saves in canonical framing at `max_parallelism`.
    """

    def __init__(self, rules: Sequence[AgeRule], max_parallelism: int) -> None:
        self._rules = rules
        self._max_parallelism = max_parallelism
        self._prefix = prefix_size(max_parallelism)
        self.left_out = {rule.name: LeftOut() for rule in rules}
        self.bytes = 0

    def remaining(self, records: Records) -> Records:
        """Return the records that stay, with lists without their old elements.

        Raises the errors of `YoungRecords.remaining`.
        """
        young, is_kept = records, np.ones(len(records), np.bool_)
        for rule in self._rules:
            indices = np.flatnonzero(records.states == rule.state_id)
            if not len(indices):
                continue
            if rule.kind is EntryKind.LIST:
                young, element_count = self._shortened(young, rule, indices, is_kept)
            else:
                is_kept[indices], element_count = _are_young(records, rule, indices), 0
            row_count = int(np.count_nonzero(~is_kept[indices]))
            self.left_out[rule.name] = self.left_out[rule.name].plus(LeftOut(row_count, element_count))
        young = young.select(is_kept)
        self.bytes += framed_size(records, self._max_parallelism) - framed_size(young, self._max_parallelism)
        return young

    def _shortened(self, records: Records, rule: AgeRule, indices: Longs, is_kept: Flags) -> tuple[Records, int]:
        """Return records with shorter lists, and the number of old elements; clear `is_kept` of lists left empty."""
        owners, begins, element_ends = _elements(records, rule, indices)
        is_young = _times(records.data, begins) > rule.cutoff
        old_count = len(is_young) - int(np.count_nonzero(is_young))
        loses_elements, keeps_elements = np.zeros(len(records), np.bool_), np.zeros(len(records), np.bool_)
        loses_elements[owners[~is_young]], keeps_elements[owners[is_young]] = True, True
        is_kept[loses_elements & ~keeps_elements] = False
        changed_lists = np.flatnonzero(loses_elements & keeps_elements)
        if not len(changed_lists):
            return records, old_count
        runs = _runs(owners, begins, element_ends, is_young & loses_elements[owners])
        return self._with_lists(records, changed_lists, *self._joined(records, changed_lists, *runs)), old_count

    def _joined(
        self, records: Records, changed_lists: Longs, owners: Longs, begins: Longs, element_ends: Longs
    ) -> tuple[Bytes, Longs]:
        """Return the bytes of the changed lists, end to end, and the size of each.

        `owners`, `begins` and `element_ends` are the runs of elements that stay. The bytes of a list are its key, space
        for its length, and its runs of elements, separated by commas.
        """
        is_last = np.append(owners[1:] != owners[:-1], True)
        part_begins = np.concatenate([records.key_starts[changed_lists] - self._prefix, begins])
        head_sizes = records.key_ends[changed_lists] + LENGTH_SIZE - part_begins[: len(changed_lists)]
        sizes = np.concatenate([head_sizes, element_ends - begins + np.where(is_last, 0, 1)])
        list_indices = np.concatenate([changed_lists, owners])
        order = np.lexsort((part_begins, list_indices))  # for each list: its key and its length, then its elements
        spans = zip(part_begins[order].tolist(), (part_begins + sizes)[order].tolist(), strict=True)
        view = records.data.data
        pieces = np.frombuffer(b"".join([view[begin:end] for begin, end in spans]), np.uint8)
        return pieces, np.add.reduceat(sizes[order], np.flatnonzero(np.diff(list_indices[order], prepend=-1)))

    def _with_lists(self, records: Records, changed_lists: Longs, pieces: Bytes, sizes: Longs) -> Records:
        """Return the records with new bytes for the lists in `changed_lists`, and write their new lengths.

        `pieces` has the new bytes of these lists, end to end, and `sizes` the number of bytes of each.
        """
        ends = len(records.data) + np.cumsum(sizes)
        columns = {name: getattr(records, name).copy() for name in ("key_starts", "key_ends", "ends")}
        key_sizes = records.key_ends[changed_lists] - records.key_starts[changed_lists]
        columns["key_starts"][changed_lists] = ends - sizes + self._prefix
        columns["key_ends"][changed_lists] = ends - sizes + self._prefix + key_sizes
        columns["ends"][changed_lists] = ends
        data = np.concatenate([records.data, pieces])
        lengths = (ends - columns["key_ends"][changed_lists] - LENGTH_SIZE).astype(">u4").view(np.uint8)
        data[columns["key_ends"][changed_lists][:, None] + np.arange(LENGTH_SIZE)] = lengths.reshape(-1, LENGTH_SIZE)
        return replace(records, data=data, **columns)


def _runs(owners: Longs, begins: Longs, element_ends: Longs, is_kept: Flags) -> tuple[Longs, Longs, Longs]:
    """Return (list, begin, end) of each run of adjacent elements that stay, as three arrays."""
    follows = np.append(False, is_kept[:-1] & (owners[1:] == owners[:-1]))
    continues = np.append(is_kept[1:] & (owners[1:] == owners[:-1]), False)
    first, last = is_kept & ~follows, is_kept & ~continues
    return owners[first], begins[first], element_ends[last]


def _are_young(records: Records, rule: AgeRule, indices: Longs) -> Flags:
    """Return whether each value at `indices` is young or has no time."""
    time_starts, ends = records.key_ends[indices] + LENGTH_SIZE, records.ends[indices]
    is_young = np.ones(len(indices), np.bool_)
    timed_indices = np.arange(len(indices))
    if rule.kind is EntryKind.MAP:
        if (time_starts >= ends).any():
            raise unreadable_time_error(rule.name)
        timed_indices = np.flatnonzero(records.data[time_starts] != 1)  # a null has no time
        time_starts = time_starts + 1
    if (time_starts[timed_indices] + TIME_SIZE > ends[timed_indices]).any():
        raise unreadable_time_error(rule.name)
    is_young[timed_indices] = _times(records.data, time_starts[timed_indices]) > rule.cutoff
    return is_young


def _times(data: Bytes, starts: Longs) -> Longs:
    times: Longs = data[starts[:, None] + np.arange(TIME_SIZE)].view(">i8").astype(np.int64).reshape(-1)
    return times


def _elements(records: Records, rule: AgeRule, indices: Longs) -> tuple[Longs, Longs, Longs]:
    """Return (list, begin, end) of each element of the lists, in order, as three arrays."""
    from rescale.flink.keyed.ttl import age_loop
    from rescale.flink.keys import machine
    from rescale.flink.keys.lowering import lower

    assert rule.element is not None
    instructions, depth = lower(rule.element)
    # An element has at least its time and a comma, except the last element of a list, which has no comma.
    list_bytes = int((records.ends[indices] - records.key_ends[indices]).sum())
    room = list_bytes // (TIME_SIZE + 1) + len(indices)
    owners, begins, element_ends = (np.empty(room, np.int64) for _ in range(3))
    with np.errstate(over="ignore"):  # hashes overflow on purpose, and without numba NumPy would warn
        count, _, error_code = age_loop.find_elements(
            records.data, records.key_ends, records.ends, indices, instructions, depth, owners, begins, element_ends
        )
    if error_code != machine.FINE:
        raise unreadable_time_error(rule.name, int(error_code))
    return owners[:count], begins[:count], element_ends[:count]

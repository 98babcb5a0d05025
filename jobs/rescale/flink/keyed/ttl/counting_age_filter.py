"""Removes and counts old values in records; `AgeFilter` removes them with compiled loops.

Validation reads the source through `CountingAgeFilter`, and a run moves state through `AgeFilter`. The two classes
share only the loop that finds the end of a list's element.
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


class LeftOutCounts(NamedTuple):
    """Numbers of rows and of list elements that were left out of a state; the elements include those of left-out rows.

    A row is a record: a value, a list, or an item of a map.
    """

    row_count: int = 0
    element_count: int = 0

    def plus(self, other: LeftOutCounts) -> LeftOutCounts:
        return LeftOutCounts(self.row_count + other.row_count, self.element_count + other.element_count)


class CountingAgeFilter:
    """Removes old values from batches of records, by the rules for some states.

    `left_out` has the numbers of removed rows and elements, by name of the state. `saved_bytes` is the number of
    bytes that the removal saves in canonical framing at `max_parallelism`.
    """

    def __init__(self, rules: Sequence[AgeRule], max_parallelism: int) -> None:
        self._rules = rules
        self._max_parallelism = max_parallelism
        self._prefix_size = prefix_size(max_parallelism)
        self.left_out = {rule.state_name: LeftOutCounts() for rule in rules}
        self.saved_bytes = 0

    def filter(self, records: Records) -> Records:
        """Return the records that stay, without the old elements of their lists; `records` does not change.

        Raises the errors of `AgeFilter.filter`.
        """
        young_records, is_kept = records, np.ones(len(records), np.bool_)
        for rule in self._rules:
            indices = np.flatnonzero(records.state_ids == rule.state_id)
            if not len(indices):
                continue
            if rule.kind is EntryKind.LIST:
                young_records, element_count = self._shorten_lists(young_records, rule, indices, is_kept)
            else:
                is_kept[indices], element_count = _are_young(records, rule, indices), 0
            row_count = int(np.count_nonzero(~is_kept[indices]))
            self.left_out[rule.state_name] = self.left_out[rule.state_name].plus(
                LeftOutCounts(row_count, element_count)
            )
        young_records = young_records.select(is_kept)
        self.saved_bytes += framed_size(records, self._max_parallelism) - framed_size(
            young_records, self._max_parallelism
        )
        return young_records

    def _shorten_lists(self, records: Records, rule: AgeRule, indices: Longs, is_kept: Flags) -> tuple[Records, int]:
        """Return records with shorter lists, and the number of old elements; clear `is_kept` of lists left empty."""
        list_indices, begins, element_ends = _find_elements(records, rule, indices)
        is_young = _read_times(records.data, begins) > rule.cutoff
        old_count = len(is_young) - int(np.count_nonzero(is_young))
        loses_elements, keeps_elements = np.zeros(len(records), np.bool_), np.zeros(len(records), np.bool_)
        loses_elements[list_indices[~is_young]], keeps_elements[list_indices[is_young]] = True, True
        is_kept[loses_elements & ~keeps_elements] = False
        changed_lists = np.flatnonzero(loses_elements & keeps_elements)
        if not len(changed_lists):
            return records, old_count
        runs = _runs_of_elements(list_indices, begins, element_ends, is_young & loses_elements[list_indices])
        return self._with_lists(records, changed_lists, *self._join_lists(records, changed_lists, *runs)), old_count

    def _join_lists(
        self, records: Records, changed_lists: Longs, run_lists: Longs, begins: Longs, element_ends: Longs
    ) -> tuple[Bytes, Longs]:
        """Return the bytes of the changed lists, end to end, and the size of each.

        `run_lists`, `begins` and `element_ends` are the runs of elements that stay. The bytes of a list are its key,
        space for its length, and its runs of elements, separated by commas.
        """
        is_last_of_list = np.append(run_lists[1:] != run_lists[:-1], True)
        part_begins = np.concatenate([records.key_starts[changed_lists] - self._prefix_size, begins])
        head_sizes = records.key_ends[changed_lists] + LENGTH_SIZE - part_begins[: len(changed_lists)]
        sizes = np.concatenate([head_sizes, element_ends - begins + np.where(is_last_of_list, 0, 1)])
        list_indices = np.concatenate([changed_lists, run_lists])
        order = np.lexsort((part_begins, list_indices))  # for each list: its key and its length, then its elements
        spans = zip(part_begins[order].tolist(), (part_begins + sizes)[order].tolist(), strict=True)
        data_view = records.data.data
        list_bytes = np.frombuffer(b"".join([data_view[begin:end] for begin, end in spans]), np.uint8)
        return list_bytes, np.add.reduceat(sizes[order], np.flatnonzero(np.diff(list_indices[order], prepend=-1)))

    def _with_lists(self, records: Records, changed_lists: Longs, list_bytes: Bytes, list_sizes: Longs) -> Records:
        """Return the records with new bytes for the lists in `changed_lists`, and write their new lengths.

        `list_bytes` has the new bytes of these lists, end to end, and `list_sizes` the number of bytes of each.
        """
        ends = len(records.data) + np.cumsum(list_sizes)
        columns = {name: getattr(records, name).copy() for name in ("key_starts", "key_ends", "ends")}
        key_sizes = records.key_ends[changed_lists] - records.key_starts[changed_lists]
        columns["key_starts"][changed_lists] = ends - list_sizes + self._prefix_size
        columns["key_ends"][changed_lists] = ends - list_sizes + self._prefix_size + key_sizes
        columns["ends"][changed_lists] = ends
        data = np.concatenate([records.data, list_bytes])
        lengths = (ends - columns["key_ends"][changed_lists] - LENGTH_SIZE).astype(">u4").view(np.uint8)
        data[columns["key_ends"][changed_lists][:, None] + np.arange(LENGTH_SIZE)] = lengths.reshape(-1, LENGTH_SIZE)
        return replace(records, data=data, **columns)


def _runs_of_elements(
    list_indices: Longs, begins: Longs, element_ends: Longs, is_kept: Flags
) -> tuple[Longs, Longs, Longs]:
    """Return (list, begin, end) of each run of adjacent elements that stay, as three arrays."""
    follows = np.append(False, is_kept[:-1] & (list_indices[1:] == list_indices[:-1]))
    continues = np.append(is_kept[1:] & (list_indices[1:] == list_indices[:-1]), False)
    is_first, is_last = is_kept & ~follows, is_kept & ~continues
    return list_indices[is_first], begins[is_first], element_ends[is_last]


def _are_young(records: Records, rule: AgeRule, indices: Longs) -> Flags:
    """Return whether each value at `indices` is young or has no time."""
    time_starts, ends = records.key_ends[indices] + LENGTH_SIZE, records.ends[indices]
    are_young = np.ones(len(indices), np.bool_)
    timed_indices = np.arange(len(indices))
    if rule.kind is EntryKind.MAP:
        if (time_starts >= ends).any():
            raise unreadable_time_error(rule.state_name)
        timed_indices = np.flatnonzero(records.data[time_starts] != 1)  # a null has no time
        time_starts = time_starts + 1
    if (time_starts[timed_indices] + TIME_SIZE > ends[timed_indices]).any():
        raise unreadable_time_error(rule.state_name)
    are_young[timed_indices] = _read_times(records.data, time_starts[timed_indices]) > rule.cutoff
    return are_young


def _read_times(data: Bytes, starts: Longs) -> Longs:
    times: Longs = data[starts[:, None] + np.arange(TIME_SIZE)].view(">i8").astype(np.int64).reshape(-1)
    return times


def _find_elements(records: Records, rule: AgeRule, indices: Longs) -> tuple[Longs, Longs, Longs]:
    """Return (list, begin, end) of each element of the lists, in order, as three arrays."""
    from rescale.flink.keyed.ttl import age_loop
    from rescale.flink.keys import machine
    from rescale.flink.keys.lowering import lower

    assert rule.element_tree is not None
    instructions, depth = lower(rule.element_tree)
    # An element has at least its time and a comma, except the last element of a list, which has no comma.
    list_size = int((records.ends[indices] - records.key_ends[indices]).sum())
    max_element_count = list_size // (TIME_SIZE + 1) + len(indices)
    list_indices, begins, element_ends = (np.empty(max_element_count, np.int64) for _ in range(3))
    with np.errstate(over="ignore"):  # hashes overflow on purpose, and without numba NumPy would warn
        element_count, _, error_code = age_loop.find_elements(
            records.data,
            records.key_ends,
            records.ends,
            indices,
            instructions,
            depth,
            list_indices,
            begins,
            element_ends,
        )
    if error_code != machine.FINE:
        raise unreadable_time_error(rule.state_name, int(error_code))
    return list_indices[:element_count], begins[:element_count], element_ends[:element_count]

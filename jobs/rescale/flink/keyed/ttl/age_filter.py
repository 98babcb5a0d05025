"""Removes old values from records while a run moves them; validation uses `CountingAgeFilter` instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rescale.flink.arrays import Flags, Longs
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keyed.ttl.last_access import AgeRule, unreadable_time_error

_NO_RULE = -1


class AgeFilter:
    """Removes old values from batches of records, by the rules for some of the `number_of_states` states."""

    def __init__(self, rules: Sequence[AgeRule], number_of_states: int) -> None:
        self._state_names = {rule.state_id: rule.state_name for rule in rules}
        self._list_rules = [rule for rule in rules if rule.kind is EntryKind.LIST]
        self._kind_by_state = np.full(number_of_states, _NO_RULE, np.int64)
        self._cutoff_by_state = np.zeros(number_of_states, np.int64)
        for rule in rules:
            self._kind_by_state[rule.state_id], self._cutoff_by_state[rule.state_id] = rule.kind, rule.cutoff

    def filter(self, records: Records) -> Records:
        """Return the records that stay, without the old elements of their lists; `records` does not change.

        Raises `SnapshotError` for a value without a time, and `UnsupportedError` for an element without a known end.
        """
        from rescale.flink.keyed.ttl import age_loop

        is_kept = np.ones(len(records), np.bool_)
        wrong_index = age_loop.unmark_old_records(
            records.data,
            records.key_ends,
            records.ends,
            records.state_ids,
            self._kind_by_state,
            self._cutoff_by_state,
            is_kept,
        )
        if wrong_index >= 0:
            raise unreadable_time_error(self._state_names[int(records.state_ids[wrong_index])])
        shortened_records = records
        for rule in self._list_rules:
            indices = np.flatnonzero(records.state_ids == rule.state_id)
            if len(indices):
                if shortened_records is records:
                    shortened_records = replace(records, data=records.data.copy(), ends=records.ends.copy())
                _shorten_lists(shortened_records, rule, indices, is_kept)
        return shortened_records if is_kept.all() else shortened_records.select(is_kept)


def _shorten_lists(records: Records, rule: AgeRule, indices: Longs, is_kept: Flags) -> None:
    """Remove old elements of the lists at `indices` from `records`; clear `is_kept` of lists left empty."""
    from rescale.flink.keyed.ttl import age_loop
    from rescale.flink.keys import machine
    from rescale.flink.keys.lowering import lower

    assert rule.element_tree is not None
    instructions, depth = lower(rule.element_tree)
    with np.errstate(over="ignore"):  # hashes overflow on purpose, and without numba NumPy would warn
        _, error_code = age_loop.shorten_lists(
            records.data, records.key_ends, records.ends, indices, instructions, depth, rule.cutoff, is_kept
        )
    if error_code != machine.FINE:
        raise unreadable_time_error(rule.state_name, int(error_code))

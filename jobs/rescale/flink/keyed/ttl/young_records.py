"""Records without old values: the fast path of a move. Its slow twin is `OldRecords`, by which a result is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rescale.flink.arrays import Flags, Longs
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keyed.ttl.last_access import AgeRule, unreadable_time

_NOT_LOOKED_AT = -1


class YoungRecords:
    """Removes values and elements from batches by rules for some of a header's `number_of_states` states."""

    def __init__(self, rules: Sequence[AgeRule], number_of_states: int) -> None:
        self._names = {rule.state_id: rule.name for rule in rules}
        self._lists = [rule for rule in rules if rule.kind is EntryKind.LIST]
        self._kinds = np.full(number_of_states, _NOT_LOOKED_AT, np.int64)
        self._untils = np.zeros(number_of_states, np.int64)
        for rule in rules:
            self._kinds[rule.state_id], self._untils[rule.state_id] = rule.kind, rule.until

    def of(self, records: Records) -> Records:
        """Return the records that stay, lists without their old elements; the batch itself is not changed.

        Raises `SnapshotError` for a value without a time, and `UnsupportedError` for a list that cannot be delimited.
        """
        from rescale.flink.keyed.ttl import age_loop

        keep = np.ones(len(records), np.bool_)
        wrong_one = age_loop.unmark_old(
            records.data, records.limits, records.ends, records.states, self._kinds, self._untils, keep
        )
        if wrong_one >= 0:
            raise unreadable_time(self._names[int(records.states[wrong_one])])
        shortened = records
        for rule in self._lists:
            chosen = np.flatnonzero(records.states == rule.state_id)
            if len(chosen):
                if shortened is records:
                    shortened = replace(records, data=records.data.copy(), ends=records.ends.copy())
                _shorten(shortened, rule, chosen, keep)
        return shortened if keep.all() else shortened.only(keep)


def _shorten(records: Records, rule: AgeRule, chosen: Longs, keep: Flags) -> None:
    """Remove the old elements of the `chosen` lists from the data of the records; unmark lists without any other."""
    from rescale.flink.keyed.ttl import age_loop
    from rescale.flink.keys import machine
    from rescale.flink.keys.lowering import lower

    assert rule.element is not None
    code, depth = lower(rule.element)
    with np.errstate(over="ignore"):  # matters where the loop is not compiled
        _, wrong = age_loop.shorten_lists(
            records.data, records.limits, records.ends, chosen, code, depth, rule.until, keep
        )
    if wrong != machine.FINE:
        raise unreadable_time(rule.name, int(wrong))

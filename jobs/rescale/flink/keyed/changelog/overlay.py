"""Applies logged changes to the records of a materialised base.

The base records arrive in batches, in any order, each record once. Unchanged records are passed on. Changed records are
yielded separately: at once if the new value needs only the base record with the same key, otherwise at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.records import BUFFER_SIZE, RECORDS_AT_ONCE, Records
from rescale.flink.keyed.changelog.change_layouts import change_layout
from rescale.flink.keyed.changelog.parsed_changes import RawChange, parsed_changes
from rescale.flink.keyed.changelog.replay import NewValue, OldValue, ReplayedState
from rescale.flink.keyed.header import KeyedHeader


class Overlay:
    """Applies changes, in order, to the base records of the states of `header`.

    Raises `SnapshotError` for a damaged change and `UnsupportedError` for an unknown operation; both name the state.
    """

    def __init__(self, changes: Sequence[RawChange], header: KeyedHeader, max_parallelism: int) -> None:
        layouts = {
            state_id: change_layout(header, header.states[state_id])
            for state_id in sorted({change.state_id for change in changes})
        }
        self._replayed_states = {state_id: ReplayedState(layout) for state_id, layout in layouts.items()}
        for change in parsed_changes(changes, layouts, max_parallelism):
            self._replayed_states[change.state_id].apply(change)
        self._reference_counts = {
            state_id: _count_references(state) for state_id, state in self._replayed_states.items()
        }
        self._cleared_prefix_sizes = {
            state_id: {len(prefix) for prefix in state.cleared_prefixes}
            for state_id, state in self._replayed_states.items()
        }
        self._old_values: dict[int, dict[bytes, bytes]] = {state_id: {} for state_id in self._replayed_states}
        self._prefix = prefix_size(max_parallelism)

    def apply_to(self, records: Records) -> Iterator[Records]:
        """Yield the unchanged records of a batch of base records, and the changed records that are already complete."""
        may_change = np.isin(records.state_ids, list(self._replayed_states))
        if not may_change.any():
            yield records
            return
        is_kept = np.ones(len(records), np.bool_)
        batch = _RecordBatch(self._prefix)
        data = records.data.tobytes()
        columns = (records.key_starts, records.key_ends, records.ends, records.state_ids)
        for i, start, key_end, end, state_id in zip(
            np.flatnonzero(may_change).tolist(), *(column[may_change].tolist() for column in columns), strict=True
        ):
            key = data[start:key_end]
            new_value = self._replayed_states[state_id].new_values.get(key)
            if new_value is None:
                is_kept[i] = not self._is_cleared(state_id, key)
                continue
            is_kept[i] = False
            if key in self._reference_counts[state_id]:
                self._old_values[state_id][key] = data[key_end + LENGTH_SIZE : end]
                if self._depends_on_itself_only(state_id, key, new_value):
                    self._add_record(state_id, key, new_value, batch)
                    new_value.parts.clear()
                    del self._old_values[state_id][key]
        if is_kept.any():
            yield records.select(is_kept)
        yield from batch.take_all()

    def remaining(self) -> Iterator[Records]:
        """Yield the remaining changed records, and the new records; call this after the last base records."""
        batch = _RecordBatch(self._prefix)
        for state_id, state in self._replayed_states.items():
            for key, new_value in state.new_values.items():
                self._add_record(state_id, key, new_value, batch)
                yield from batch.take_if_full()
        yield from batch.take_all()

    def _add_record(self, state_id: int, key: bytes, new_value: NewValue, batch: _RecordBatch) -> None:
        old_values = self._old_values[state_id]
        parts = (old_values.get(part.key) if isinstance(part, OldValue) else part for part in new_value.parts)
        value = self._replayed_states[state_id].value([part for part in parts if part is not None])
        if value is not None:
            batch.add(state_id, new_value.key_group, key, value)

    def _depends_on_itself_only(self, state_id: int, key: bytes, new_value: NewValue) -> bool:
        """Whether a new value needs only the base record with its own key, and no other new value needs this record."""
        old_value_count = sum(isinstance(part, OldValue) for part in new_value.parts)
        return old_value_count == 1 and self._reference_counts[state_id][key] == 1 and OldValue(key) in new_value.parts

    def _is_cleared(self, state_id: int, key: bytes) -> bool:
        cleared_prefixes = self._replayed_states[state_id].cleared_prefixes
        return any(key[:size] in cleared_prefixes for size in self._cleared_prefix_sizes[state_id])


def _count_references(state: ReplayedState) -> Counter[bytes]:
    """Return how often new values refer to the old value of each base record, by key."""
    return Counter(
        part.key for new_value in state.new_values.values() for part in new_value.parts if isinstance(part, OldValue)
    )


class _RecordBatch:
    """Collects single records into batches of the usual size."""

    def __init__(self, key_group_size: int) -> None:
        self._prefix = bytes(key_group_size)
        self._pieces: list[bytes] = []
        self._columns: list[tuple[int, int, int, int, int]] = []
        self._filled = 0

    def add(self, state_id: int, key_group: int, key: bytes, value: bytes) -> None:
        start = self._filled + len(self._prefix)
        key_end = start + len(key)
        self._filled = key_end + LENGTH_SIZE + len(value)
        self._pieces += (self._prefix, key, len(value).to_bytes(LENGTH_SIZE, "big"), value)
        self._columns.append((start, key_end, self._filled, state_id, key_group))

    def take_if_full(self) -> Iterator[Records]:
        """Yield a batch if there are enough records for one."""
        if self._filled >= BUFFER_SIZE or len(self._columns) >= RECORDS_AT_ONCE:
            yield from self.take_all()

    def take_all(self) -> Iterator[Records]:
        if not self._columns:
            return
        data = np.frombuffer(bytearray(b"".join(self._pieces)), np.uint8)
        columns = np.array(self._columns, np.int64)
        self._pieces, self._columns, self._filled = [], [], 0
        yield Records(data, *(np.ascontiguousarray(columns[:, i]) for i in range(columns.shape[1])))

"""Reader of the records of canonical key groups (`FullSnapshotAsyncWriter`), in batches.

    stateId:i16  { keyLength:i32 key  valueLength:i32 value  [ nextStateId:u16 ] }*

Each key begins with its key group: in one byte if there are up to 128 key groups, otherwise in two bytes
(`CompositeKeySerializationUtils`). Bit 0x80 of the first byte means that an id follows the record: the id of the next
state, or 0xFFFF at the end of the key group. The reader checks that each key group begins at its offset, and contains
only records of this key group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from rescale.flink.arrays import Bytes, Flags, Longs
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.record_marks import ID_SIZE, LARGEST_RECORD_SIZE, LENGTH_SIZE, NEXT_ID_FLAG
from rescale.flink.keyed.header import MOST_UNKNOWN_STATES
from rescale.text.errors import SnapshotError, UnsupportedError

BUFFER_SIZE = 4 * 1024 * 1024
RECORDS_AT_ONCE = 1 << 15
"""Usual size in bytes (`BUFFER_SIZE`) and largest number of records of a batch; a larger record enlarges its batch.

A batch of this size stays in a processor's cache from one loop to the next. Readers for sorting use multiples of both
numbers, which give longer sorted runs.
"""

_ERROR_TEXTS = (
    "",
    "a state id that is not in the header",
    "an impossible length",
    "a record of another key group",
    "bytes after the end of a key group",
    "a key group that is longer than its offsets say",
)
"""Descriptions of errors, by the codes of `record_walk`."""


@dataclass(frozen=True)
class Records:
    """A batch of records in `data`; the other arrays (int64) have an element for each record.

    Record i has the composite key `data[key_starts[i]:key_ends[i]]` (without key group, with namespace and user key),
    then the length of its value, and its value up to `ends[i]`. It belongs to state `state_ids[i]` and key group
    `groups[i]`. A reader reuses the arrays for its next batch.
    """

    data: Bytes
    key_starts: Longs
    key_ends: Longs
    ends: Longs
    state_ids: Longs
    groups: Longs

    def __len__(self) -> int:
        return len(self.key_starts)

    def select(self, chosen: Flags | slice) -> Records:
        """Return the chosen records, in the same `data`."""
        columns = (self.key_starts, self.key_ends, self.ends, self.state_ids, self.groups)
        return Records(self.data, *(column[chosen] for column in columns))


def framed_size(records: Records, max_parallelism: int) -> int:
    """Return the size in bytes of the records in canonical framing, without the id at the start of each key group."""
    group_size = prefix_size(max_parallelism)
    size = int((records.ends - records.key_starts).sum()) + len(records) * (LENGTH_SIZE + group_size)
    return size + ID_SIZE * int(np.count_nonzero(records.data[records.key_starts - group_size] & NEXT_ID_FLAG))


class RecordReader:
    """Reads the records of runs of consecutive key groups; it reuses its buffers from run to run.

    `number_of_states` is None if unknown. `batch_factor` multiplies the usual size of a batch: `BUFFER_SIZE` bytes or
    `RECORDS_AT_ONCE` records.
    """

    def __init__(self, max_parallelism: int, number_of_states: int | None, *, batch_factor: int = 1) -> None:
        self._prefix_size = prefix_size(max_parallelism)
        self._state_count = MOST_UNKNOWN_STATES if number_of_states is None else number_of_states
        self._states_are_known = number_of_states is not None
        self._buffer = np.empty(batch_factor * BUFFER_SIZE, np.uint8)
        self._records_at_once = batch_factor * RECORDS_AT_ONCE
        self._columns = [np.empty(self._records_at_once, np.int64) for _ in range(5)]

    def read(
        self, key_groups: Longs, group_starts: Longs, chunks: Iterable[bytes | memoryview], *, is_whole: bool = True
    ) -> Iterator[Records]:
        """Yield all records of a run in order.

        Key group i of the run is `key_groups[i]` and begins at `group_starts[i]`, counted from the first chunk.
        `group_starts[i]` may still be unset until `chunks` yields the first chunk of key group i. If `is_whole` is
        false, the last key group may be cut off anywhere. Raises `SnapshotError` for broken framing, with the offset in
        the run, and `UnsupportedError` for a record of more than `LARGEST_RECORD_SIZE` bytes.
        """
        from rescale.flink.keyed.blocks import record_walk

        progress = np.array([record_walk.NO_STATE, 0], np.int64)
        origin = filled_bytes = 0
        for chunk in chain(chunks, (None,)):  # None marks the end
            unread = memoryview(chunk or b"")
            while unread or chunk is None:
                taken_bytes = min(len(unread), len(self._buffer) - filled_bytes)
                self._buffer[filled_bytes : filled_bytes + taken_bytes] = np.frombuffer(unread[:taken_bytes], np.uint8)
                filled_bytes, unread = filled_bytes + taken_bytes, unread[taken_bytes:]
                if chunk is not None and filled_bytes < len(self._buffer):
                    break
                begin = needed_bytes = 0
                count = self._records_at_once
                while count == self._records_at_once:
                    data = self._buffer[begin:filled_bytes]
                    count, walked_bytes, error_code, needed_bytes = record_walk.walk_records(
                        data,
                        origin,
                        key_groups,
                        group_starts,
                        self._prefix_size,
                        self._state_count,
                        progress,
                        *self._columns,
                    )
                    if count:
                        yield Records(data, *(column[:count] for column in self._columns))
                    begin, origin = begin + walked_bytes, origin + walked_bytes
                    if error_code == record_walk.BAD_ID and not self._states_are_known:
                        raise _too_many_states_error(
                            int.from_bytes(data[walked_bytes : walked_bytes + ID_SIZE].tobytes(), "big"), origin
                        )
                    if error_code:
                        raise SnapshotError(
                            f"the framing of a key group is broken: {_ERROR_TEXTS[error_code]}", offset=origin
                        )
                self._buffer[: filled_bytes - begin] = self._buffer[begin:filled_bytes]
                filled_bytes -= begin
                if chunk is None:
                    break
                self._make_room(needed_bytes, origin)
        is_in_group = (
            progress[record_walk.GROUP_INDEX] != len(key_groups)
            or progress[record_walk.STATE_ID] != record_walk.NO_STATE
        )
        if is_whole and (filled_bytes or is_in_group):
            raise SnapshotError("a key group ends inside a record", offset=origin)

    def _make_room(self, needed_bytes: int, origin: int) -> None:
        """Enlarge the buffer to `needed_bytes`, but not to more than twice its size.

        With this limit, a damaged length does not allocate gigabytes.
        """
        if needed_bytes <= len(self._buffer):
            return
        if len(self._buffer) >= LARGEST_RECORD_SIZE:
            raise UnsupportedError(
                "a record is too large to move",
                offset=origin,
                expected=f"at most {LARGEST_RECORD_SIZE} bytes",
                found=f"{needed_bytes} bytes",
                advice="change only the parallelism: then records are not read",
            )
        larger_buffer = np.empty(min(needed_bytes, 2 * len(self._buffer), LARGEST_RECORD_SIZE), np.uint8)
        larger_buffer[: len(self._buffer)] = self._buffer
        self._buffer = larger_buffer


def _too_many_states_error(state_id: int, origin: int) -> UnsupportedError:
    return UnsupportedError(
        "an unknown serializer hides the number of states, and a record has a state id above the assumed maximum",
        offset=origin,
        expected=f"at most {MOST_UNKNOWN_STATES} states",
        found=f"a record of state {state_id}",
        advice="keep the max parallelism: then whole key groups are moved, and records are not read",
    )

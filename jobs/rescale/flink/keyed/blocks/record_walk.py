"""Compiled loop that finds the records of canonical key groups.

Import this module inside functions (see `compiled`).
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP, LENGTH_SIZE, NEXT_ID_FLAG

NO_STATE = -1
"""Value of `progress[STATE_ID]` between two key groups."""

FINE, BAD_ID, BAD_LENGTH, OTHER_GROUP, AFTER_END, TOO_EARLY = range(6)

STATE_ID, GROUP_INDEX = range(2)
"""Indices in `progress`, the position of the walk: the state of the next record, and the index of its key group."""


@compiled
def read_u32(data: Bytes, at: Long) -> Long:
    """Return the unsigned big-endian number in four bytes; a negative `i32` gives more than 0x7FFFFFFF."""
    high = np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16
    return high | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])


@compiled
def walk_records(
    data: Bytes,
    origin: int,
    run_groups: Longs,
    group_starts: Longs,
    prefix_size: int,
    state_count: int,
    progress: Longs,
    key_starts: Longs,
    key_ends: Longs,
    record_ends: Longs,
    state_ids: Longs,
    record_groups: Longs,
) -> tuple[int, int, int, int]:
    """Find the complete records in `data` from `progress` on, until the arrays from `key_starts` on are full.

    `origin` is the offset of `data[0]` in the run of key groups. Key group i of the run is `run_groups[i]`, and begins
    at `group_starts[i]`. Returns (number of records, bytes walked, error code, bytes that the next record needs).
    """
    state_id, group_index = progress[STATE_ID], progress[GROUP_INDEX]
    at, end, count, needed_bytes, error_code = 0, len(data), 0, 0, FINE
    while count < len(key_starts) and at < end:
        begin = at
        if state_id == NO_STATE:
            if group_index >= len(run_groups) or group_starts[group_index] > origin + at:
                error_code = AFTER_END
            elif group_starts[group_index] < origin + at:
                error_code = TOO_EARLY
            elif end - at < 2:
                needed_bytes = 2
            else:
                state_id = np.int64(data[at]) << 8 | np.int64(data[at + 1])
                begin += 2
                if state_id >= state_count:
                    error_code = BAD_ID
            if error_code != FINE or needed_bytes:
                break
        needed_bytes = begin - at + LENGTH_SIZE
        if end - at < needed_bytes:
            break
        key_size = read_u32(data, begin)
        if key_size > 0x7FFFFFFF or key_size < prefix_size:
            error_code = BAD_LENGTH
            break
        needed_bytes += key_size + LENGTH_SIZE
        if end - at < needed_bytes:
            break
        value_size = read_u32(data, begin + LENGTH_SIZE + key_size)
        if value_size > 0x7FFFFFFF:
            error_code = BAD_LENGTH
            break
        has_flag = data[begin + LENGTH_SIZE] & NEXT_ID_FLAG
        needed_bytes += value_size + (2 if has_flag else 0)
        if end - at < needed_bytes:
            break
        key_group = np.int64(data[begin + LENGTH_SIZE] & 0x7F)
        if prefix_size == 2:
            key_group = key_group << 8 | np.int64(data[begin + LENGTH_SIZE + 1])
        if key_group != run_groups[group_index]:
            error_code = OTHER_GROUP
            break
        key_starts[count] = begin + LENGTH_SIZE + prefix_size
        key_ends[count] = begin + LENGTH_SIZE + key_size
        record_ends[count] = begin + 2 * LENGTH_SIZE + key_size + value_size
        state_ids[count] = state_id
        record_groups[count] = key_group
        count += 1
        at, needed_bytes = at + needed_bytes, 0
        progress[STATE_ID], progress[GROUP_INDEX] = state_id, group_index
        if has_flag:
            state_id = np.int64(data[at - 2]) << 8 | np.int64(data[at - 1])
            if state_id == END_OF_GROUP:
                state_id = NO_STATE
                group_index += 1
            elif state_id >= state_count:
                error_code = BAD_ID
                at -= 2
                break
            progress[STATE_ID], progress[GROUP_INDEX] = state_id, group_index
    return count, at, error_code, needed_bytes

"""Compiled loop that finds the records of canonical key groups; import this module late (see `compiled`)."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP, FLAG, LENGTH_SIZE

NO_STATE = -1
"""Value of `place[STATE_ID]` between two key groups."""

FINE, BAD_ID, BAD_LENGTH, OTHER_GROUP, AFTER_END, TOO_EARLY = range(6)

STATE_ID, GROUP = range(2)
"""Indices in `place`, the position of the walk: the state of the next record, and the index of its key group."""


@compiled
def read_u32(data: Bytes, at: Long) -> Long:
    """Return the unsigned big-endian number in four bytes; a negative `i32` gives more than 0x7FFFFFFF."""
    high = np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16
    return high | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])


@compiled
def walk_records(
    data: Bytes,
    origin: int,
    groups: Longs,
    group_starts: Longs,
    prefix_size: int,
    number_of_states: int,
    place: Longs,
    key_starts: Longs,
    key_ends: Longs,
    ends: Longs,
    states: Longs,
    group_numbers: Longs,
) -> tuple[int, int, int, int]:
    """Find the complete records in `data` from `place` on, until the arrays `key_starts` to `group_numbers` are full.

    `origin` is the offset of `data[0]` in the run of key groups. Key group i of the run is `groups[i]`, and begins at
    `group_starts[i]`. Returns (number of records, bytes walked, error code, bytes that the next record needs).
    """
    state, i = place[STATE_ID], place[GROUP]
    at, end, count, needed_bytes, error_code = 0, len(data), 0, 0, FINE
    while count < len(key_starts) and at < end:
        begin = at
        if state == NO_STATE:
            if i >= len(groups) or group_starts[i] > origin + at:
                error_code = AFTER_END
            elif group_starts[i] < origin + at:
                error_code = TOO_EARLY
            elif end - at < 2:
                needed_bytes = 2
            else:
                state = np.int64(data[at]) << 8 | np.int64(data[at + 1])
                begin += 2
                if state >= number_of_states:
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
        has_flag = data[begin + LENGTH_SIZE] & FLAG
        needed_bytes += value_size + (2 if has_flag else 0)
        if end - at < needed_bytes:
            break
        group = np.int64(data[begin + LENGTH_SIZE] & 0x7F)
        if prefix_size == 2:
            group = group << 8 | np.int64(data[begin + LENGTH_SIZE + 1])
        if group != groups[i]:
            error_code = OTHER_GROUP
            break
        key_starts[count] = begin + LENGTH_SIZE + prefix_size
        key_ends[count] = begin + LENGTH_SIZE + key_size
        ends[count] = begin + 2 * LENGTH_SIZE + key_size + value_size
        states[count] = state
        group_numbers[count] = group
        count += 1
        at, needed_bytes = at + needed_bytes, 0
        place[STATE_ID], place[GROUP] = state, i
        if has_flag:
            state = np.int64(data[at - 2]) << 8 | np.int64(data[at - 1])
            if state == END_OF_GROUP:
                state = NO_STATE
                i += 1
            elif state >= number_of_states:
                error_code = BAD_ID
                at -= 2
                break
            place[STATE_ID], place[GROUP] = state, i
    return count, at, error_code, needed_bytes

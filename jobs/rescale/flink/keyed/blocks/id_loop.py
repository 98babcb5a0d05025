"""Compiled loop that translates the state ids of a canonical key group.

Import this module inside functions (see `compiled`).
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import compiled
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP, NEXT_ID_FLAG

_AT_ID, _AT_KEY_LENGTH, _IN_KEY, _AT_VALUE_LENGTH, _IN_VALUE, _AT_NEXT_ID, AT_END = range(7)
FINE, BAD_ID, BAD_LENGTH, AFTER_END = range(4)
PHASE, _REMAINING_BYTES, _HAS_FLAG = range(3)
"""Indices in `progress`, the position of the loop between two chunks."""


@compiled
def translate_ids(data: Bytes, progress: Longs, new_ids: Longs) -> tuple[int, int]:
    """Replace each id in `data` by `new_ids[id]`, in place; update `progress`; return (bytes walked, error code)."""
    at, end = 0, len(data)
    phase, remaining_bytes, has_flag = progress[PHASE], progress[_REMAINING_BYTES], progress[_HAS_FLAG]
    while at < end:
        if phase in (_IN_KEY, _IN_VALUE):
            step = min(remaining_bytes, end - at)
            at += step
            remaining_bytes -= step
            if remaining_bytes:
                break
            after_value = _AT_NEXT_ID if has_flag else _AT_KEY_LENGTH
            phase = _AT_VALUE_LENGTH if phase == _IN_KEY else after_value
        elif phase in (_AT_KEY_LENGTH, _AT_VALUE_LENGTH):
            # The flag is in the key's first byte, so this byte is read together with the length.
            if end - at < (5 if phase == _AT_KEY_LENGTH else 4):
                break
            length = (np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16 | np.int64(data[at + 2]) << 8) | np.int64(
                data[at + 3]
            )
            if length > 0x7FFFFFFF or (phase == _AT_KEY_LENGTH and length == 0):
                return at, BAD_LENGTH
            at += 4
            remaining_bytes = length
            if phase == _AT_KEY_LENGTH:
                has_flag = np.int64(data[at]) & NEXT_ID_FLAG
                phase = _IN_KEY
            elif length:
                phase = _IN_VALUE
            else:
                phase = _AT_NEXT_ID if has_flag else _AT_KEY_LENGTH
        elif phase == AT_END:
            return at, AFTER_END
        else:
            if end - at < 2:
                break
            old_id = np.int64(data[at]) << 8 | np.int64(data[at + 1])
            if phase == _AT_NEXT_ID and old_id == END_OF_GROUP:
                phase = AT_END
            elif old_id >= len(new_ids):
                return at, BAD_ID
            else:
                data[at], data[at + 1] = new_ids[old_id] >> 8, new_ids[old_id] & 0xFF
                phase = _AT_KEY_LENGTH
            at += 2
    progress[PHASE], progress[_REMAINING_BYTES], progress[_HAS_FLAG] = phase, remaining_bytes, has_flag
    return at, FINE

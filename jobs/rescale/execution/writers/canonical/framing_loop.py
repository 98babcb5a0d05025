"""Loop that frames blocks; compiled, so its module is loaded only when needed."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE, NEXT_ID_FLAG


@compiled
def frame_blocks(
    data: Bytes, starts: Longs, sizes: Longs, last_offsets: Longs, first_ids: Longs, marks: Longs, out: Bytes
) -> int:
    """Write blocks end to end, with the ids around them that canonical framing requires; return the number of bytes.

    `first_ids` has the state id before each block, `marks` the id after it; -1 means no id. If there is an id after a
    block, the key of its last record, which begins at offset `last_offsets` of the block, is flagged.
    """
    at = 0
    for i in range(len(starts)):
        if first_ids[i] >= 0:
            out[at], out[at + 1] = first_ids[i] >> 8, first_ids[i] & 0xFF
            at += 2
        end = copy_bytes(data, starts[i], starts[i] + sizes[i], out, np.int64(at))
        if marks[i] >= 0:
            out[at + last_offsets[i] + LENGTH_SIZE] |= NEXT_ID_FLAG
            out[end], out[end + 1] = marks[i] >> 8, marks[i] & 0xFF
            end += 2
        at = end
    return at

"""The loops over every record and every block; compiled, so this module is loaded late."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Codes, Longs
from rescale.flink.compiled import compiled, copy_bytes
from rescale.flink.keyed.record_marks import FLAG


@compiled
def sort_records(
    data: Bytes,
    starts: Longs,
    limits: Longs,
    ends: Longs,
    groups: Longs,
    slots: Longs,
    prefix: int,
    places: Longs,
    lasts: Longs,
    out: Bytes,
) -> None:
    """Writes the records into `out` in the order of their slots, each with its new key group in front of its key.

    `places` and `lasts` have an element for every slot that there is, and come back with where its records end, and
    where the last of them begins.
    """
    places[:] = 0
    for i in range(len(slots)):
        places[slots[i]] += 4 + prefix + ends[i] - starts[i]
    total = np.int64(0)
    for slot in range(len(places)):
        size = places[slot]
        places[slot] = total
        total += size
    for i in range(len(slots)):
        at = places[slots[i]]
        lasts[slots[i]] = at
        key = prefix + limits[i] - starts[i]
        out[at], out[at + 1], out[at + 2], out[at + 3] = key >> 24 & 0xFF, key >> 16 & 0xFF, key >> 8 & 0xFF, key & 0xFF
        if prefix == 2:
            out[at + 4] = groups[i] >> 8
        out[at + 3 + prefix] = groups[i] & 0xFF
        places[slots[i]] = copy_bytes(data, starts[i], ends[i], out, at + 4 + prefix)


@compiled
def frame_blocks(
    data: Bytes, starts: Longs, sizes: Longs, lasts: Longs, first_ids: Longs, marks: Longs, out: Bytes
) -> int:
    """Writes blocks one behind the other, with the ids around them that canonical framing wants; returns the bytes.

    `first_ids` is the state id in front of a block, `marks` the id behind it, -1 for none; a block with a mark has its
    last record, `lasts` bytes behind its begin, flagged.
    """
    at = 0
    for i in range(len(starts)):
        if first_ids[i] >= 0:
            out[at], out[at + 1] = first_ids[i] >> 8, first_ids[i] & 0xFF
            at += 2
        end = copy_bytes(data, starts[i], starts[i] + sizes[i], out, np.int64(at))
        if marks[i] >= 0:
            out[at + lasts[i] + 4] |= FLAG
            out[end], out[end + 1] = marks[i] >> 8, marks[i] & 0xFF
            end += 2
        at = end
    return at


@compiled
def count_distinct(codes: Codes, table: Longs, count: int, most: int) -> int:
    """`count` plus the number of codes that are not in `table` yet, up to `most`; they are then.

    The table has a power of two of places, over twice as many as `most`, and -1 where it is empty.
    """
    mask = len(table) - 1
    for code in codes:
        if count >= most:
            break
        key = np.int64(code) & 0xFFFFFFFF
        place = key * 0x9E3779B1 >> 8 & mask
        while table[place] != -1 and table[place] != key:
            place = place + 1 & mask
        if table[place] == -1:
            table[place] = key
            count += 1
    return count

"""Finds the extents of the key groups in a stream.

A handle has an offset for each key group. A key group ends at the next larger offset, or at the end of the stream. The
framing determines which offset stands for a key group without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

from rescale.flink.extents import ends_by_offset
from rescale.text.errors import SnapshotError


class Framing(Enum):
    """Format of the bytes of a key group; it also determines the offset of an absent key group."""

    CANONICAL = "canonical"
    """`FullSnapshotAsyncWriter`: offsets ascend; offset 0 means that the key group is empty and has no bytes."""

    HEAP = "heap"
    """`HeapSnapshotStrategy`: offsets ascend; each key group has a block, even if it is empty."""

    RAW = "raw"
    """`KeyedStateCheckpointOutputStream`: user code chooses the order; -1 means an absent key group, 0 is valid."""


def may_be_canonical(key_group: int, head: bytes) -> bool:
    """Whether a key group may be canonical although it begins with its own number, as a heap block does.

    `head` has the first eight bytes. A heap block begins with the number of its key group in four bytes. A canonical
    key group begins with a state id in two bytes and the length of a key in four. So both begin alike if the state id
    is 0 and the upper half of the length equals the number of the key group. But in a canonical key group, the key
    follows, which begins with the number of the key group in one or two bytes.
    """
    one_byte_group, two_byte_group = head[6] & 0x7F, int.from_bytes(head[6:8], "big") & 0x7FFF
    return key_group in (one_byte_group, two_byte_group)


def group_extents(
    first_key_group: int, offsets: Sequence[int], size: int, framing: Framing
) -> tuple[tuple[int, int] | None, ...]:
    """Return (start, length) in bytes of each key group in a stream of `size` bytes, None for an absent key group.

    Raises `SnapshotError` for an offset outside the stream, and for offsets in a wrong order.
    """
    absent_offset = {Framing.CANONICAL: 0, Framing.HEAP: None, Framing.RAW: -1}[framing]
    # Only in raw state can a key group with an offset have no bytes.
    lowest_offset, highest_offset = (0, size) if framing is Framing.RAW else (1, size - 1)
    given_offsets = [offset for offset in offsets if offset != absent_offset]
    for key_group, offset in enumerate(offsets, first_key_group):
        if offset != absent_offset and not lowest_offset <= offset <= highest_offset:
            raise SnapshotError(
                f"the offset of key group {key_group} lies outside its stream",
                offset=offset,
                expected=f"{lowest_offset} to {highest_offset}",
                found=offset,
            )
    descent_texts = (f"{low} before {high}" for low, high in pairwise(given_offsets) if low >= high)
    if framing is not Framing.RAW and (first_descent := next(descent_texts, None)) is not None:
        raise SnapshotError(
            "the offsets of the key groups do not ascend", expected="ascending offsets", found=first_descent
        )
    end_by_offset = ends_by_offset(given_offsets, size)
    return tuple(None if offset == absent_offset else (offset, end_by_offset[offset] - offset) for offset in offsets)

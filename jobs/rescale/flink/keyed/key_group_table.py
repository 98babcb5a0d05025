"""Extents of the key groups in a stream.

A handle has an offset for each key group. A group ends at the next larger offset, or at the end of the stream. The
offset of a group without state depends on the framing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

from rescale.flink.extents import ends
from rescale.text.errors import SnapshotError


class Framing(Enum):
    """Framing of the bytes of a key group, which also determines the offset of an absent group."""

    CANONICAL = "canonical"
    """`FullSnapshotAsyncWriter`: offsets ascend; 0 is an empty group, which has no bytes."""

    HEAP = "heap"
    """`HeapSnapshotStrategy`: offsets ascend; each group has a block, even an empty group."""

    RAW = "raw"
    """`KeyedStateCheckpointOutputStream`: offsets have the user's order; -1 is an absent group, 0 is valid."""


def may_be_canonical(key_group: int, head: bytes) -> bool:
    """Whether a key group may be canonical although it begins with its own number, as a heap block does.

    `head` has its first eight bytes. A heap block begins with its number, a state's id and a count of entries. In a
    canonical group, the same bytes are the id of state 0 and the length of its first key: 64 KiB or more, or any length
    in key group 0. Behind these six bytes, the key begins with the key group.
    """
    in_one_byte, in_two_bytes = head[6] & 0x7F, int.from_bytes(head[6:8], "big") & 0x7FFF
    return key_group in (in_one_byte, in_two_bytes)


def group_extents(
    first_key_group: int, offsets: Sequence[int], size: int, framing: Framing
) -> tuple[tuple[int, int] | None, ...]:
    """Return (start, length) of each key group in a stream of `size` bytes, None for an absent group.

    Raises `SnapshotError` for an offset outside the stream, and for offsets in a wrong order.
    """
    absent = {Framing.CANONICAL: 0, Framing.HEAP: None, Framing.RAW: -1}[framing]
    # Only user code can list a key group without bytes.
    least, most = (0, size) if framing is Framing.RAW else (1, size - 1)
    present = [offset for offset in offsets if offset != absent]
    for key_group, offset in enumerate(offsets, first_key_group):
        if offset != absent and not least <= offset <= most:
            raise SnapshotError(
                f"the offset of key group {key_group} lies outside its stream",
                offset=offset,
                expected=f"{least} to {most}",
                found=offset,
            )
    if framing is not Framing.RAW and any(low >= high for low, high in pairwise(present)):
        raise SnapshotError(
            "the offsets of the key groups do not ascend", expected="ascending offsets", found=_descent(present)
        )
    end_of = ends(present, size)
    return tuple(None if offset == absent else (offset, end_of[offset] - offset) for offset in offsets)


def _descent(offsets: Sequence[int]) -> str:
    """Return the first pair of neighbours that does not ascend."""
    return next(f"{low} before {high}" for low, high in pairwise(offsets) if low >= high)

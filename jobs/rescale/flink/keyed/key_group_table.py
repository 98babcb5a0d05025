"""Where the key groups of a stream lie.

A handle holds an offset for each key group; a group ends where the next larger offset is, or at the end of the stream.
What an offset of a group without state looks like depends on the framing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

from rescale.errors import SnapshotError
from rescale.flink.extents import ends


class Framing(Enum):
    """How the bytes of a key group are framed, which also says what the offset of an absent group is."""

    CANONICAL = "canonical"
    """`FullSnapshotAsyncWriter`: ascending; 0 is an empty group, which has no bytes."""

    HEAP = "heap"
    """`HeapSnapshotStrategy`: ascending; every group has a block, also an empty one."""

    RAW = "raw"
    """`KeyedStateCheckpointOutputStream`: in the user's order; -1 is a group that was not written, 0 is valid."""


def may_be_canonical(key_group: int, head: bytes) -> bool:
    """Whether a key group that begins with these eight bytes, first its own number, may be canonical all the same.

    A heap block begins with its number, the id of a state and a count of entries. Records that begin so are of state 0
    and have keys of 64 KiB and more, except in key group 0, where every key does; the key group stands in front of the
    key.
    """
    in_one_byte, in_two_bytes = head[6] & 0x7F, int.from_bytes(head[6:8], "big") & 0x7FFF
    return key_group in (in_one_byte, in_two_bytes)


def group_extents(
    first_key_group: int, offsets: Sequence[int], size: int, framing: Framing
) -> tuple[tuple[int, int] | None, ...]:
    """(start, length) of every key group in a stream of `size` bytes, None for one that is not there.

    `SnapshotError` for an offset that cannot be.
    """
    absent = {Framing.CANONICAL: 0, Framing.HEAP: None, Framing.RAW: -1}[framing]
    # Only user code may write nothing into a key group and still have it listed.
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
            "the offsets of the key groups do not ascend", expected="one block after the other", found=_descent(present)
        )
    end_of = ends(present, size)
    return tuple(None if offset == absent else (offset, end_of[offset] - offset) for offset in offsets)


def _descent(offsets: Sequence[int]) -> str:
    """The first two neighbours that do not ascend."""
    return next(f"{low} before {high}" for low, high in pairwise(offsets) if low >= high)

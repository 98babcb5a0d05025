"""Where everything goes, once the size of every new key group is known: offsets, parts, and what must be put together.

A store may want parts of some size. What a lane has too little of is staged, and made one part with what follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from rescale.execution.rekeying.lanes import Lane
from rescale.planning.plan import Plan
from rescale.storage.locations import join
from rescale.target.places import places_of

_MOST_PARTS = 10_000
"""As many as S3 allows."""


class LaneWork(NamedTuple):
    """What the task of a lane writes: `size` bytes, the stream's header in front if it is the `first` lane.

    If it is `inline`, its bytes are handed back. It writes the whole stream if `token` is empty. Otherwise the first
    `staged` bytes go to `staging`, the rest becomes the parts from `part` on of the file that `token` stands for, from
    `offset` on.
    """

    lane: Lane
    stream: int
    first: bool
    size: int
    inline: bool
    token: str = ""
    part: int = 0
    offset: int = 0
    staged: int = 0
    staging: str = ""


class Merge(NamedTuple):
    """A part of a stream that is put together from what was staged."""

    operator: int
    stream: int
    token: str
    part: int
    offset: int
    staged: tuple[str, ...]


class StreamParts(NamedTuple):
    works: tuple[LaneWork, ...]
    merges: tuple[Merge, ...]


def stream_parts(
    plan: Plan, stream: int, name: str, token: str, lanes: Sequence[tuple[Lane, int]], smallest: int
) -> StreamParts:
    """How lanes of (lane, bytes) become the parts of a file; all parts but the last have `smallest` bytes at least."""
    total = sum(size for _, size in lanes)
    part_size = part_size_of(plan, total)
    smallest = max(smallest, -(-total // _MOST_PARTS))
    works: list[LaneWork] = []
    merges: list[Merge] = []
    waiting: list[str] = []
    part, offset, waiting_size = 1, 0, 0
    filled = [(lane, size) for lane, size in lanes if size]
    for i, (lane, size) in enumerate(filled):
        is_last = i == len(filled) - 1
        staged = 0
        if waiting or (size < smallest and not is_last):
            staged = size if size < 2 * part_size else part_size
            waiting.append(_staging(plan, name, token, lane))
            waiting_size += staged
            if waiting_size >= smallest or is_last:
                merges.append(Merge(lane.operator, stream, token, part, offset, tuple(waiting)))
                part, offset, waiting, waiting_size = part + 1, offset + waiting_size, [], 0
        works.append(
            LaneWork(
                lane,
                stream,
                first=i == 0,
                size=size,
                inline=False,
                token=token,
                part=part,
                offset=offset,
                staged=staged,
                staging=_staging(plan, name, token, lane) if staged else "",
            )
        )
        part += number_of_parts(size - staged, part_size)
        offset += size - staged
    return StreamParts(tuple(works), tuple(merges))


def _staging(plan: Plan, name: str, token: str, lane: Lane) -> str:
    """A place that no other run of the plan has, whose lanes may be cut elsewhere."""
    return join(places_of(plan).staging, f"{name}-{hashlib.sha256(token.encode()).hexdigest()[:16]}-{lane.first}")


def part_size_of(plan: Plan, size: int) -> int:
    """For a stream of `size` bytes: half as many parts as may be, for a lane may end in one that is half as large."""
    return max(plan.part_size, -(-size // (_MOST_PARTS // 2)))


def number_of_parts(size: int, part_size: int) -> int:
    """Parts of `part_size` bytes, the last one of up to twice as many, so that none is small."""
    return max(1, size // part_size) if size else 0

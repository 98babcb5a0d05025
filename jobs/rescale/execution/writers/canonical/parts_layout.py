"""Where everything goes, once the size of every new key group is known: offsets, parts, and what must be put together.

A store may want parts of some size. What a range has too little of is staged, and made one part with what follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from rescale.execution.writers.parts import number_of_parts, part_size
from rescale.execution.writers.protocol import WriteRange
from rescale.planning.values.plan import Plan
from rescale.storage.contract import PartLimits
from rescale.storage.locations import join
from rescale.target.places import places_of


class Merge(NamedTuple):
    """A part of a stream, of `size` bytes, that is put together from what was staged."""

    operator: int
    stream: int
    token: str
    part: int
    offset: int
    staged: tuple[str, ...]
    size: int


class PartsWork(NamedTuple):
    """What the task of a range writes: `size` bytes, the stream's header in front if it is the `first` range.

    If it is `inline`, its bytes are handed back. It writes the whole stream if `token` is empty. Otherwise the first
    `staged` bytes go to `staging`, the rest becomes the parts from `part` on of the file that `token` stands for, from
    `offset` on. `merge` is there with the last range whose bytes are staged for it.
    """

    range: WriteRange
    stream: int
    first: bool
    size: int
    part_size: int
    inline: bool = False
    token: str = ""
    part: int = 0
    offset: int = 0
    staged: int = 0
    staging: str = ""
    merge: Merge | None = None


def stream_parts(
    plan: Plan, stream: int, name: str, token: str, ranges: Sequence[tuple[WriteRange, int]], limits: PartLimits
) -> list[PartsWork]:
    """How ranges of (range, bytes) become the parts of a file; of what sizes, `limits` say."""
    total = sum(size for _, size in ranges)
    size_of_parts = part_size(plan, total)
    smallest = max(limits.smallest, -(-total // limits.most))
    works: list[PartsWork] = []
    waiting: list[str] = []
    part, offset, waiting_size = 1, 0, 0
    filled = [(one, size) for one, size in ranges if size]
    for i, (one, size) in enumerate(filled):
        is_last = i == len(filled) - 1
        staged, staging, merge = 0, "", None
        if waiting or (size < smallest and not is_last):
            staged = size if size < 2 * size_of_parts else size_of_parts
            staging = _staging(plan, name, token, one)
            waiting.append(staging)
            waiting_size += staged
            if waiting_size >= smallest or is_last:
                merge = Merge(one.operator, stream, token, part, offset, tuple(waiting), waiting_size)
                part, offset, waiting, waiting_size = part + 1, offset + waiting_size, [], 0
        works.append(
            PartsWork(
                one,
                stream,
                i == 0,
                size,
                size_of_parts,
                token=token,
                part=part,
                offset=offset,
                staged=staged,
                staging=staging,
                merge=merge,
            )
        )
        part += number_of_parts(size - staged, size_of_parts)
        offset += size - staged
    return works


def _staging(plan: Plan, name: str, token: str, of: WriteRange) -> str:
    """A place that no other run of the plan has, whose ranges may be cut elsewhere."""
    return join(places_of(plan).staging, f"{name}-{hashlib.sha256(token.encode()).hexdigest()[:16]}-{of.first}")

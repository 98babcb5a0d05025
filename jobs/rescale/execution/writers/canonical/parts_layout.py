"""Layout of a stream's ranges as parts of a file, once the size of every new key group is known.

Stores have a smallest part size. A range below that size is staged: written to a file of its own, and later joined into
one part with the bytes after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from rescale.execution.writers.files import number_of_parts, part_size
from rescale.execution.writers.protocol import WriteRange
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.storage.contract import PartLimits
from rescale.storage.locations import join


class Merge(NamedTuple):
    """A part of a stream, of `size` bytes, that is joined from the staged files `staged_uris`."""

    operator_index: int
    stream_index: int
    upload_id: str
    part_number: int
    offset: int
    staged_uris: tuple[str, ...]
    size: int


class PartsWork(NamedTuple):
    """Work of a range's task: write `size` bytes before compression, with the stream's header first if `is_first`.

    The task returns the bytes of an `is_inline` range. If `upload_id` is empty, the range is the whole stream. Else the
    first `staged_bytes` are written to the file `staging_uri`. The rest is uploaded as parts: the first has the number
    `part_number`, and begins at `offset` in the stream. If the range is the last one with staged bytes of a part,
    `merge` describes how that part is joined.
    """

    range: WriteRange
    stream_index: int
    is_first: bool
    size: int
    part_size: int
    is_inline: bool = False
    upload_id: str = ""
    part_number: int = 0
    offset: int = 0
    staged_bytes: int = 0
    staging_uri: str = ""
    merge: Merge | None = None


def stream_parts(
    plan: Plan,
    stream_index: int,
    name: str,
    upload_id: str,
    ranges: Sequence[tuple[WriteRange, int]],
    limits: PartLimits,
) -> list[PartsWork]:
    """Lay out (range, bytes) pairs as the parts of a file, within the store's `limits`."""
    total_size = sum(size for _, size in ranges)
    size_of_parts = part_size(plan, total_size)
    least_part_size = max(limits.smallest_part_bytes, -(-total_size // limits.most_parts))
    work_items: list[PartsWork] = []
    waiting_uris: list[str] = []
    part_number, offset, waiting_size = 1, 0, 0
    filled_ranges = [(write_range, size) for write_range, size in ranges if size]
    for i, (write_range, size) in enumerate(filled_ranges):
        is_last = i == len(filled_ranges) - 1
        staged_bytes, staging_uri, merge = 0, "", None
        if waiting_uris or (size < least_part_size and not is_last):
            staged_bytes = size if size < 2 * size_of_parts else size_of_parts
            # Only this upload uses this URI, so no part is joined from the staged files of another run.
            upload_hash = hashlib.sha256(upload_id.encode()).hexdigest()[:16]
            staging_uri = join(places_of(plan).staging, f"{name}-{upload_hash}-{write_range.first}")
            waiting_uris.append(staging_uri)
            waiting_size += staged_bytes
            if waiting_size >= least_part_size or is_last:
                merge = Merge(
                    write_range.operator_index,
                    stream_index,
                    upload_id,
                    part_number,
                    offset,
                    tuple(waiting_uris),
                    waiting_size,
                )
                part_number, offset, waiting_uris, waiting_size = part_number + 1, offset + waiting_size, [], 0
        work_items.append(
            PartsWork(
                write_range,
                stream_index,
                i == 0,
                size,
                size_of_parts,
                upload_id=upload_id,
                part_number=part_number,
                offset=offset,
                staged_bytes=staged_bytes,
                staging_uri=staging_uri,
                merge=merge,
            )
        )
        part_number += number_of_parts(size - staged_bytes, size_of_parts)
        offset += size - staged_bytes
    return work_items

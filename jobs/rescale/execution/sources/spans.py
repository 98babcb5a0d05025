"""Groups key groups, or extents, that lie end to end into runs of bounded size, which a task reads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from rescale.flink.key_groups import KeyGroupRange
from rescale.snapshot.locate import Extent

_MOST_RUN_BYTES = 64 * 1024 * 1024
_MOST_RUN_ITEMS = 100_000

T = TypeVar("T")


def bounded_runs(items: Iterable[T], follows: Callable[[T, T], bool], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Group items into runs of bounded size. A run also ends if the next item does not follow the last (`follows`)."""
    run: list[T] = []
    run_bytes = 0
    for item in items:
        is_full = run_bytes + size(item) > _MOST_RUN_BYTES or len(run) >= _MOST_RUN_ITEMS
        if run and (is_full or not follows(run[-1], item)):
            yield run
            run, run_bytes = [], 0
        run.append(item)
        run_bytes += size(item)
    if run:
        yield run


def extent_runs(extents: Iterable[Extent]) -> Iterator[list[Extent]]:
    """Group extents into runs of bounded size. The extents of a run lie end to end."""
    return bounded_runs(extents, is_adjacent, lambda extent: extent.length)


def group_runs(groups: Iterable[tuple[int, Extent]]) -> Iterator[list[tuple[int, Extent]]]:
    """Group key groups, given as (number, extent), into runs of bounded size. The extents of a run lie end to end."""
    return bounded_runs(groups, lambda last, group: is_adjacent(last[1], group[1]), lambda group: group[1].length)


def is_adjacent(previous: Extent, extent: Extent) -> bool:
    """Return whether `extent` begins where `previous` ends."""
    return previous.file == extent.file and previous.start + previous.length == extent.start


def span(extents: Sequence[Extent]) -> Extent:
    """Return the extent that a run of adjacent extents covers."""
    return Extent(extents[0].file, extents[0].start, sum(extent.length for extent in extents))


def key_group_runs(first_key_group: int, sizes: Sequence[int], most_bytes: int) -> Iterator[tuple[KeyGroupRange, int]]:
    """Yield runs of consecutive key groups, with the size of each run.

    `sizes` has the size of each key group from `first_key_group` on. A run has at most `most_bytes` bytes, unless a
    single key group is larger.
    """
    last_key_group, filled_bytes = first_key_group + len(sizes) - 1, 0
    for key_group, size in enumerate(sizes, first_key_group):
        if filled_bytes and filled_bytes + size > most_bytes:
            yield KeyGroupRange(first_key_group, key_group - 1), filled_bytes
            first_key_group, filled_bytes = key_group, 0
        filled_bytes += size
    yield KeyGroupRange(first_key_group, last_key_group), filled_bytes

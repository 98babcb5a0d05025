"""Index of old streams by key group: finds the old streams that hold key groups of a new stream."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, Protocol, TypeVar

from rescale.flink.key_groups import KeyGroupRange


class HasKeyGroups(Protocol):
    """A stream, or anything else with a range of key groups."""

    @property
    def key_groups(self) -> KeyGroupRange: ...


S = TypeVar("S", bound=HasKeyGroups)


class KeyGroupIndex(Generic[S]):
    """Index of streams by their key groups. The streams may be in any order, and their key groups may overlap."""

    def __init__(self, streams: Sequence[S]) -> None:
        self._streams = streams
        self._order = sorted(range(len(streams)), key=lambda i: streams[i].key_groups.first)
        self._firsts = [streams[i].key_groups.first for i in self._order]
        # The largest key group of the streams up to each position: it never descends, so the list can be bisected.
        self._highest_lasts = list(accumulate((streams[i].key_groups.last for i in self._order), max))

    def overlapping(self, key_groups: KeyGroupRange) -> list[S]:
        """Return the streams that hold a key group of the range `key_groups`, in their original order."""
        candidates = self._order[
            bisect_left(self._highest_lasts, key_groups.first) : bisect_right(self._firsts, key_groups.last)
        ]
        return [
            self._streams[i] for i in sorted(candidates) if len(self._streams[i].key_groups.intersection(key_groups))
        ]

"""Index of old streams by key group: finds the old streams whose key groups a new stream takes over."""

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
    """Index of streams in any order, whose key groups may overlap; a lookup visits only streams near the range."""

    def __init__(self, streams: Sequence[S]) -> None:
        self._streams = streams
        self._order = sorted(range(len(streams)), key=lambda i: streams[i].key_groups.first)
        self._firsts = [streams[i].key_groups.first for i in self._order]
        # Largest key group of all streams up to each position; it ascends, so it can be bisected.
        self._reached = list(accumulate((streams[i].key_groups.last for i in self._order), max))

    def overlapping(self, own: KeyGroupRange) -> list[S]:
        """Return the streams that hold a key group of the range `own`, in their original order."""
        near = self._order[bisect_left(self._reached, own.first) : bisect_right(self._firsts, own.last)]
        return [self._streams[i] for i in sorted(near) if len(self._streams[i].key_groups.intersection(own))]

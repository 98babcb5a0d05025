"""Who gets which element of operator state (`RoundRobinOperatorStateRepartitioner`).

With the same parallelism everything stays where it is. With another one

* SPLIT_DISTRIBUTE: the elements of a state, in subtask order, are dealt in consecutive runs; the remainder of
  one state shifts the start of the next, so the *order of the states* matters. Flink walks a `java.util.HashMap`,
  and so do we.
* UNION: Flink hands every element to every subtask at restore. Stored once, by position, in exactly one subtask,
  they are dealt in even consecutive runs; equal bytes are not merged.
* BROADCAST: subtask i gets copy i mod n of the n copies that exist, in subtask order.

An element is known by the old subtask that holds it and its index in that subtask's list of offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rescale.flink.metadata.handles import DistributionMode


@dataclass(frozen=True, slots=True)
class StateLayout:
    """How many elements of a state one old subtask holds."""

    name: str
    mode: DistributionMode
    elements: int


@dataclass(frozen=True, slots=True)
class ElementRun:
    """Elements `first` to `first + count - 1` of a state in old subtask `source`."""

    source: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StateShare:
    """What one new subtask gets of one state, in order."""

    name: str
    mode: DistributionMode
    runs: tuple[ElementRun, ...]


def redistribute(old: Sequence[Sequence[StateLayout]], parallelism: int) -> list[list[StateShare]]:
    """The shares of `parallelism` new subtasks, from the layouts of the old ones (empty: no handle).

    With another parallelism every new subtask lists every state that any old one listed, in first-seen order, also
    those of which it gets no element.
    """
    if parallelism == len(old):
        return [
            [StateShare(s.name, s.mode, _EndToEnd([(source, s.elements)]).runs(0, s.elements)) for s in layout]
            for source, layout in enumerate(old)
        ]
    shares: list[dict[str, StateShare]] = [{} for _ in range(parallelism)]
    holders = _holders(old)
    modes = {state.name: state.mode for layout in old for state in layout}
    start = 0
    for name in _flink_order(old):
        total = sum(count for _, count in holders[name])
        match modes[name]:
            case DistributionMode.BROADCAST:
                copies = [(source, count) for source, count in holders[name] if count]
                dealt = [_EndToEnd([copies[i % len(copies)]]).runs(0, 1) if copies else () for i in range(parallelism)]
            case DistributionMode.UNION:
                dealt = list(_deal(holders[name], total, parallelism, 0))
            case DistributionMode.SPLIT_DISTRIBUTE:
                dealt = list(_deal(holders[name], total, parallelism, start))
                start = (start + total % parallelism) % parallelism
        for subtask, runs in enumerate(dealt):
            shares[subtask][name] = StateShare(name, modes[name], runs)
    return [[share[name] for name in holders] for share in shares]


def _holders(old: Sequence[Sequence[StateLayout]]) -> dict[str, list[tuple[int, int]]]:
    """For every state, in first-seen order, (old subtask, elements) of those that list it."""
    holders: dict[str, list[tuple[int, int]]] = {}
    for source, layout in enumerate(old):
        for state in layout:
            holders.setdefault(state.name, []).append((source, state.elements))
    return holders


def _deal(holders: list[tuple[int, int]], total: int, parallelism: int, start: int) -> Iterator[tuple[ElementRun, ...]]:
    """The runs of subtask 0, 1, …: `total div parallelism` elements each, one more for the first from `start` on."""
    base, remainder = divmod(total, parallelism)
    elements = _EndToEnd(holders)
    dealt: list[tuple[ElementRun, ...]] = [()] * parallelism
    position = 0
    for i in range(parallelism):
        count = base + (1 if i < remainder else 0)
        dealt[(i + start) % parallelism] = elements.runs(position, count)
        position += count
    yield from dealt


class _EndToEnd:
    """The elements of a state, which old subtasks hold so many of, as one sequence."""

    def __init__(self, holders: Sequence[tuple[int, int]]) -> None:
        self._holders = holders
        self._ends = list(accumulate(elements for _, elements in holders))

    def runs(self, position: int, count: int) -> tuple[ElementRun, ...]:
        """Elements `position` to `position + count - 1`."""
        runs = []
        end = position + count
        i = bisect_right(self._ends, position)
        while position < end:
            source, elements = self._holders[i]
            taken = min(self._ends[i], end) - position
            if taken:
                runs.append(ElementRun(source, position - (self._ends[i] - elements), taken))
            position += taken
            i += 1
        return tuple(runs)


def _flink_order(old: Sequence[Sequence[StateLayout]]) -> list[str]:
    """State names in the order in which Flink meets them, those of each mode apart.

    Two hash maps decide. The reader of `_metadata` puts each handle's states into a map sized for them, and `put`
    appends inside a bucket; the repartitioner collects those of a mode with `computeIfAbsent`, which links at the head.
    """
    collected = {mode: _JavaHashMapOrder(16) for mode in DistributionMode}
    for layout in old:
        handle = _JavaHashMapOrder(_capacity_for(len(layout)))
        modes = {state.name: state.mode for state in layout}
        for name in modes:
            handle.put(name)
        for name in handle:
            collected[modes[name]].compute_if_absent(name)
    return [name for names in collected.values() for name in names]


def _capacity_for(expected: int) -> int:
    """The table size behind `CollectionUtil.newHashMapWithExpectedSize` (Flink 1.18 and newer), which never grows."""
    return 1 << (-(-expected * 4 // 3) - 1).bit_length()


class _JavaHashMapOrder:
    """The iteration order of a `java.util.HashMap<String, …>`: by bucket, inside a bucket as they were linked."""

    def __init__(self, capacity: int) -> None:
        self._buckets: list[list[str]] = [[] for _ in range(capacity)]
        self._names: set[str] = set()

    def put(self, name: str) -> None:
        """Of names that are put once each, into a table that has room for all."""
        self._buckets[self._index(name)].append(name)

    def compute_if_absent(self, name: str) -> None:
        if len(self._names) > 0.75 * len(self._buckets):
            self._double()  # before it looks whether the name is there
        if name in self._names:
            return
        self._buckets[self._index(name)].insert(0, name)
        self._names.add(name)

    def __iter__(self) -> Iterator[str]:
        return (name for bucket in self._buckets for name in bucket)

    def _index(self, name: str) -> int:
        code = java_string_hash(name) & 0xFFFFFFFF
        return (code ^ code >> 16) & (len(self._buckets) - 1)

    def _double(self) -> None:
        order = list(self)
        self._buckets = [[] for _ in range(2 * len(self._buckets))]
        for name in order:  # resize keeps the relative order inside a bucket
            self._buckets[self._index(name)].append(name)


def java_string_hash(text: str) -> int:
    """`String.hashCode`, signed: over UTF-16 units."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code

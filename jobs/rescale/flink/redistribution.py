"""Assigns the elements of operator state to new subtasks (`RoundRobinOperatorStateRepartitioner`).

At the same parallelism, every element stays in its subtask. At another parallelism, the distribution mode of a state
decides:

* SPLIT_DISTRIBUTE: each new subtask gets a run of consecutive elements, in the order of the old subtasks. If
  the elements cannot be divided evenly, some runs are longer by one element. The longer runs of a state begin at the
  subtask after the last longer run of the previous state. So the *order of the states* matters: it is the iteration
  order of a `java.util.HashMap`.
* UNION: at restore, Flink gives each element to all subtasks, but a snapshot stores each element only once. In the new
  snapshot, each subtask has a run of consecutive elements. The sizes of the runs differ by one at most, and elements
  with equal bytes stay separate.
* BROADCAST: new subtask i gets copy i mod n of the n old copies, which have the order of their old subtasks.

An element is identified by its old subtask, and by its index in that subtask's list of offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rescale.flink.keys.java_strings import java_string_hash
from rescale.flink.metadata.handles import DistributionMode


@dataclass(frozen=True, slots=True)
class StateLayout:
    """A state in an old subtask, which has `element_count` elements of it."""

    name: str
    mode: DistributionMode
    element_count: int


@dataclass(frozen=True, slots=True)
class ElementRun:
    """Elements `first` to `first + count - 1` of a state in old subtask `source`."""

    source: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StateShare:
    """Elements of a state for a new subtask, in order."""

    name: str
    mode: DistributionMode
    runs: tuple[ElementRun, ...]


def redistribute(old_layouts: Sequence[Sequence[StateLayout]], parallelism: int) -> list[list[StateShare]]:
    """Return the shares of each of `parallelism` new subtasks.

    `old_layouts` has the layouts of the states of each old subtask; a subtask without an operator handle has none. At
    another parallelism, each new subtask gets a share, maybe empty, of each state of the old subtasks, in first-seen
    order.
    """
    if parallelism == len(old_layouts):
        return [
            [
                StateShare(s.name, s.mode, _Concatenation([(source, s.element_count)]).runs(0, s.element_count))
                for s in subtask_states
            ]
            for source, subtask_states in enumerate(old_layouts)
        ]
    shares: list[dict[str, StateShare]] = [{} for _ in range(parallelism)]
    counts_by_name = _element_counts_by_state(old_layouts)
    mode_by_name = {state.name: state.mode for subtask_states in old_layouts for state in subtask_states}
    start = 0
    for name in _flink_order(old_layouts):
        element_count = sum(count for _, count in counts_by_name[name])
        match mode_by_name[name]:
            case DistributionMode.BROADCAST:
                copies = [(source, count) for source, count in counts_by_name[name] if count]
                runs_of_subtasks = [
                    _Concatenation([copies[i % len(copies)]]).runs(0, 1) if copies else () for i in range(parallelism)
                ]
            case DistributionMode.UNION:
                runs_of_subtasks = list(_consecutive_runs(counts_by_name[name], element_count, parallelism, 0))
            case DistributionMode.SPLIT_DISTRIBUTE:
                runs_of_subtasks = list(_consecutive_runs(counts_by_name[name], element_count, parallelism, start))
                start = (start + element_count % parallelism) % parallelism
        for subtask, runs in enumerate(runs_of_subtasks):
            shares[subtask][name] = StateShare(name, mode_by_name[name], runs)
    return [[share[name] for name in counts_by_name] for share in shares]


def _element_counts_by_state(old_layouts: Sequence[Sequence[StateLayout]]) -> dict[str, list[tuple[int, int]]]:
    """Return (old subtask, number of elements) of each old subtask with a state, by state name, in first-seen order."""
    counts_by_name: dict[str, list[tuple[int, int]]] = {}
    for source, subtask_states in enumerate(old_layouts):
        for state in subtask_states:
            counts_by_name.setdefault(state.name, []).append((source, state.element_count))
    return counts_by_name


def _consecutive_runs(
    element_counts: list[tuple[int, int]], element_count: int, parallelism: int, start: int
) -> Iterator[tuple[ElementRun, ...]]:
    """Yield the runs of subtask 0, 1, …: `element_count // parallelism` elements each.

    The subtasks from `start` on get one element more, until no elements are left over.
    """
    least_count, remainder = divmod(element_count, parallelism)
    concatenation = _Concatenation(element_counts)
    runs_of_subtasks: list[tuple[ElementRun, ...]] = [()] * parallelism
    position = 0
    for i in range(parallelism):
        count = least_count + (1 if i < remainder else 0)
        runs_of_subtasks[(i + start) % parallelism] = concatenation.runs(position, count)
        position += count
    yield from runs_of_subtasks


class _Concatenation:
    """Elements of a state in all old subtasks, as a single sequence."""

    def __init__(self, element_counts: Sequence[tuple[int, int]]) -> None:
        self._element_counts = element_counts
        self._ends = list(accumulate(count for _, count in element_counts))

    def runs(self, position: int, count: int) -> tuple[ElementRun, ...]:
        runs = []
        end = position + count
        i = bisect_right(self._ends, position)
        while position < end:
            source, element_count = self._element_counts[i]
            taken_count = min(self._ends[i], end) - position
            if taken_count:
                runs.append(ElementRun(source, position - (self._ends[i] - element_count), taken_count))
            position += taken_count
            i += 1
        return tuple(runs)


def _flink_order(old_layouts: Sequence[Sequence[StateLayout]]) -> list[str]:
    """Return the state names in the order in which Flink visits them, mode by mode.

    Two Java hash maps determine this order. `MetadataV2V3SerializerBase` puts the states of a handle into a map of
    fitting size; `put` appends to a bucket. The repartitioner collects the states of a mode with `computeIfAbsent`,
    which prepends to a bucket.
    """
    order_by_mode = {mode: _JavaHashMapOrder(16) for mode in DistributionMode}
    for subtask_states in old_layouts:
        handle_order = _JavaHashMapOrder(_capacity_for(len(subtask_states)))
        mode_by_name = {state.name: state.mode for state in subtask_states}
        for name in mode_by_name:
            handle_order.put(name)
        for name in handle_order:
            order_by_mode[mode_by_name[name]].compute_if_absent(name)
    return [name for names in order_by_mode.values() for name in names]


def _capacity_for(expected_count: int) -> int:
    """Return the table size of a map of `CollectionUtil.newHashMapWithExpectedSize` (since Flink 1.18)."""
    return 1 << (-(-expected_count * 4 // 3) - 1).bit_length()


class _JavaHashMapOrder:
    """Iteration order of a `java.util.HashMap<String, …>`: by bucket, and within a bucket by link."""

    def __init__(self, capacity: int) -> None:
        self._buckets: list[list[str]] = [[] for _ in range(capacity)]
        self._names: set[str] = set()

    def put(self, name: str) -> None:
        """Append a name to its bucket. Callers put each name once, and the table has room for all names."""
        self._buckets[self._index(name)].append(name)

    def compute_if_absent(self, name: str) -> None:
        if len(self._names) > 0.75 * len(self._buckets):
            self._double()  # Java resizes before it looks the name up
        if name in self._names:
            return
        self._buckets[self._index(name)].insert(0, name)
        self._names.add(name)

    def __iter__(self) -> Iterator[str]:
        return (name for bucket in self._buckets for name in bucket)

    def _index(self, name: str) -> int:
        hash_code = java_string_hash(name) & 0xFFFFFFFF
        return (hash_code ^ hash_code >> 16) & (len(self._buckets) - 1)

    def _double(self) -> None:
        ordered_names = list(self)
        self._buckets = [[] for _ in range(2 * len(self._buckets))]
        for name in ordered_names:  # `HashMap.resize` keeps the order of the names in a bucket
            self._buckets[self._index(name)].append(name)

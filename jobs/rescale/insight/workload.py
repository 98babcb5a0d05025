"""What a plan has for a cluster to do, in a few numbers; so they can be those of a state a hundred times as large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rescale.flink.slot import Slot
from rescale.insight.durations import Rates, rates_of
from rescale.planning.values.new_streams import RekeyedKeyGroups, RekeyedRows
from rescale.planning.values.plan import Plan
from rescale.planning.values.rekeying import Rekeying


@dataclass(frozen=True)
class RekeyedWork:
    """Records that get new key groups, in bytes of the source.

    `pieces` is how many of them can be read apart, the `largest` with so many bytes: key groups, or databases.
    `new_pieces` and `new_largest` are the same of what is written: key groups, or where a stream is not cut, streams.
    """

    bytes: int
    rates: Rates
    pieces: int
    largest: int
    new_pieces: int
    new_largest: int


@dataclass(frozen=True)
class Workload:
    """`copied` bytes go as they are, in parts; `elements` are those of operator state. Files are counted as they are.

    `largest_file` is how much the fullest new subtask has of one operator.
    """

    copied: int
    elements: int
    rekeyed: tuple[RekeyedWork, ...]
    source_files: int
    new_files: int
    largest_file: int
    part_size: int

    @property
    def bytes(self) -> int:
        return self.copied + self.elements + sum(one.bytes for one in self.rekeyed)

    def of_size(self, size: int) -> Workload:
        """The same job with a state of `size` bytes; it has no more key groups, subtasks and files for that."""
        times = size / max(1, self.bytes)
        return replace(
            self,
            copied=int(self.copied * times),
            elements=int(self.elements * times),
            rekeyed=tuple(
                replace(
                    one,
                    bytes=int(one.bytes * times),
                    largest=int(one.largest * times),
                    new_largest=int(one.new_largest * times),
                )
                for one in self.rekeyed
            ),
            largest_file=int(self.largest_file * times),
        )


def workload_of(plan: Plan) -> Workload:
    rekeyed = tuple(_rekeyed(plan))
    elements = plan.bytes_of(Slot.OPERATOR, Slot.RAW_OPERATOR)
    copied = plan.bytes_moved - elements - sum(operator.rekeyed_bytes for operator in plan.operators)
    files = sum(len(operator.streams) + len(operator.rekeyed) + len(operator.compacted) for operator in plan.operators)
    largest = max((max(operator.new_keyed_bytes, default=0) for operator in plan.operators), default=0)
    return Workload(max(0, copied), elements, rekeyed, len(plan.files), files, largest, plan.part_size)


def _rekeyed(plan: Plan) -> Iterator[RekeyedWork]:
    for operator in plan.operators:
        for one in operator.rekeyings:
            expected = one.expected_key_groups(operator.max_parallelism, operator.new_max_parallelism)
            sizes = _readable(one)
            new = [size for size in expected if size]
            if not _is_cut(one):
                new = [sum(expected[s.first_key_group : s.first_key_group + s.key_groups]) for s in one.streams]
            if sizes and new:
                yield RekeyedWork(one.bytes, rates_of(operator), len(sizes), max(sizes), len(new), max(new))


def _readable(one: Rekeying) -> list[int]:
    groups = [group[1] for source in one.sources for group in source.groups if group is not None and group[1]]
    return groups + [database.size for database in one.databases]


def _is_cut(one: Rekeying) -> bool:
    """Whether a new stream is written by several tasks."""
    stream = one.streams[0]
    return isinstance(stream, RekeyedRows) or (isinstance(stream, RekeyedKeyGroups) and not one.compressed)

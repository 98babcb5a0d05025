"""Sums up the work of a plan in a few numbers, from which a run on a cluster is estimated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rescale.flink.slot import Slot
from rescale.insight.durations import Rates, rates_of
from rescale.plan.new_streams import RekeyedDirectory, RekeyedKeyGroups
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.snapshot.places import StreamPlace


@dataclass(frozen=True)
class RekeyedWork:
    """Rekeyed records of an operator (`Rekeying`); sizes are in bytes of the source.

    Pieces are what tasks can read separately: key groups of streams, and all other sources. New pieces are what tasks
    can write separately: key groups or whole streams.
    """

    bytes: int
    rates: Rates
    piece_count: int
    largest_piece_bytes: int
    new_piece_count: int
    largest_new_piece_bytes: int


@dataclass(frozen=True)
class Workload:
    """Work of a plan: `copied_bytes` of keyed state, `operator_bytes` of operator state, and records to rekey.

    `largest_file_bytes` is the largest keyed state of one operator in one new subtask, and `part_size` what a task
    writes at once, in bytes.
    """

    copied_bytes: int
    operator_bytes: int
    rekeyed: tuple[RekeyedWork, ...]
    source_file_count: int
    new_file_count: int
    largest_file_bytes: int
    part_size: int

    @property
    def bytes(self) -> int:
        return self.copied_bytes + self.operator_bytes + sum(records.bytes for records in self.rekeyed)


def workload_of(plan: Plan) -> Workload:
    rekeyed_work = tuple(_rekeyed_work(plan))
    operator_bytes = plan.bytes_of(Slot.OPERATOR, Slot.RAW_OPERATOR)
    copied_bytes = plan.bytes_moved - operator_bytes - sum(operator.rekeyed_bytes for operator in plan.operators)
    new_file_count = sum(
        len(operator.streams) + len(operator.rekeyed_streams) + len(operator.compacted) for operator in plan.operators
    )
    largest_file_bytes = max((max(operator.new_keyed_bytes, default=0) for operator in plan.operators), default=0)
    return Workload(
        max(0, copied_bytes),
        operator_bytes,
        rekeyed_work,
        len(plan.files),
        new_file_count,
        largest_file_bytes,
        plan.part_size,
    )


def _rekeyed_work(plan: Plan) -> Iterator[RekeyedWork]:
    for operator in plan.operators:
        for rekeying in operator.rekeyings:
            expected_sizes = rekeying.expected_key_group_bytes(operator.max_parallelism, operator.new_max_parallelism)
            sizes = _piece_sizes(rekeying)
            new_sizes = [size for size in expected_sizes if size]
            if not _can_split_streams(rekeying):
                new_sizes = [
                    sum(expected_sizes[s.first_key_group : s.first_key_group + s.key_groups]) for s in rekeying.streams
                ]
            if sizes and new_sizes:
                yield RekeyedWork(
                    rekeying.bytes, rates_of(operator), len(sizes), max(sizes), len(new_sizes), max(new_sizes)
                )


def _piece_sizes(rekeying: Rekeying) -> list[int]:
    """Return the sizes of the pieces that tasks can read separately: key groups of streams, and all other sources."""
    stream_sizes = [
        size
        for source in rekeying.sources
        if isinstance(source.place, StreamPlace)
        for size in source.key_group_sizes
        if size
    ]
    return stream_sizes + [
        source.place.size for source in rekeying.sources if not isinstance(source.place, StreamPlace)
    ]


def _can_split_streams(rekeying: Rekeying) -> bool:
    """Return whether several tasks can write one new stream, each a part of it."""
    stream_type = rekeying.stream_type
    return stream_type is RekeyedDirectory or (stream_type is RekeyedKeyGroups and not rekeying.compressed)

"""Units of reading: sources, or runs of their key groups, that a task reads at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rescale.execution.sources.spans import key_group_runs
from rescale.plan.rekeying import PlannedSource, Rekeying, work_bytes_of
from rescale.planning.task_sizes import UNIT_SIZE
from rescale.snapshot.places import StreamPlace


class ReadUnit(NamedTuple):
    """A source, or a part of a source, that a task reads at once.

    `unit_index` is the index of this unit among all units, `operator_index` the index of the operator in the plan.
    """

    unit_index: int
    operator_index: int
    source: PlannedSource

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return self.source.place.size

    @property
    def work(self) -> int:
        """Work to read and sort the records, in the unit of `work_bytes_of`."""
        return work_bytes_of(self.source.place)


def split_into_read_units(rekeying_by_operator: Mapping[int, Rekeying]) -> list[ReadUnit]:
    """Split the sources of all rekeyings into units; `rekeying_by_operator` is by the operator's index in the plan.

    A unit of a key-group stream has at most `UNIT_SIZE` bytes, unless a single key group is larger. Key groups without
    bytes are in no unit. Every other source, such as a RocksDB directory, is one unit.
    """
    parts = (
        (operator_index, part)
        for operator_index, rekeying in rekeying_by_operator.items()
        for source in rekeying.sources
        for part in _bounded_parts(source)
    )
    return [ReadUnit(unit_index, operator_index, part) for unit_index, (operator_index, part) in enumerate(parts)]


def _bounded_parts(source: PlannedSource) -> Iterator[PlannedSource]:
    match source.place:
        case StreamPlace() as place:
            for key_groups, size in key_group_runs(place.first_key_group, source.key_group_sizes, UNIT_SIZE):
                if size:
                    yield source._replace(place=place.part(key_groups))
        case _:
            yield source._replace(estimates=())

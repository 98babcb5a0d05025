"""Units of reading: runs of the sources' key groups that a task reads at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rescale.plan.rekeying import RekeyedSource, Rekeying
from rescale.planning.task_sizes import UNIT_SIZE

_RATE_OF_CHANGES = 4
"""How many times as fast changed files are read: most of their rows are compared with each other, and go no further."""


class ReadUnit(NamedTuple):
    """The key groups `first` to `last` of one source of an operator; `number` is the unit's place among all units.

    `source` is a number of `Rekeying.in_reading_order`. Only key-group streams are read in parts. `size` has the bytes
    to be read, and `weight` the bytes of usual state that cost as much work.
    """

    number: int
    operator: int
    source: int
    first: int
    last: int
    size: int
    weight: int


def read_units(rekeyings: Mapping[int, Rekeying]) -> list[ReadUnit]:
    """Split the sources of all `rekeyings` (by operator number) into units.

    Every key group with bytes is in one unit. Units have a bounded size unless a single key group is larger.
    """
    units: list[ReadUnit] = []
    for number, rekeying in rekeyings.items():
        for source, first, last, size in _runs(rekeying):
            weight = size if rekeying.continued is None else size // _RATE_OF_CHANGES
            units.append(ReadUnit(len(units), number, source, first, last, size, weight))
    return units


def _runs(rekeying: Rekeying) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number of the source, first and last key group, bytes) of each unit."""
    for number, source in enumerate(rekeying.in_reading_order):
        if isinstance(source, RekeyedSource):
            for first, last, size in _parts(source):
                yield number, first, last, size
        else:
            yield number, *source.key_groups, source.size


def _parts(source: RekeyedSource) -> Iterator[tuple[int, int, int]]:
    """Yield (first, last, bytes) of runs of a stream's key groups, which are numbered from its first one."""
    first = size = 0
    for i, length in enumerate(source.key_group_sizes):
        if size and size + length > UNIT_SIZE:
            yield first, i - 1, size
            first, size = i, 0
        size += length
    if size:
        yield first, len(source.groups) - 1, size

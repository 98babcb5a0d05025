"""Units of reading: sources, or runs of their key groups, that a task reads at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rescale.plan.rekeying import RecordsOfPlan, RekeyedSource, Rekeying
from rescale.planning.task_sizes import UNIT_SIZE

_RATE_OF_CHANGES = 4
"""How many times as fast changed files are read: most of their rows are compared with each other, and go no further."""


class ReadUnit(NamedTuple):
    """A source of operator number `operator`, or the part of it that a task reads; `number` is its place among all.

    Only key-group streams are read in parts. `size` has the bytes to be read, and `weight` the bytes of usual state
    that cost as much work.
    """

    number: int
    operator: int
    source: RecordsOfPlan
    size: int
    weight: int


def read_units(rekeyings: Mapping[int, Rekeying]) -> list[ReadUnit]:
    """Split the sources of all `rekeyings` (by operator number) into units.

    Every key group with bytes is in one unit. Units have a bounded size unless a single key group is larger.
    """
    units: list[ReadUnit] = []
    for number, rekeying in rekeyings.items():
        for source, size in _parts(rekeying):
            weight = size if rekeying.continued is None else size // _RATE_OF_CHANGES
            units.append(ReadUnit(len(units), number, source, size, weight))
    return units


def _parts(rekeying: Rekeying) -> Iterator[tuple[RecordsOfPlan, int]]:
    """Yield the parts of all sources that are read at once, and the bytes of each."""
    for source in rekeying.in_reading_order:
        if isinstance(source, RekeyedSource):
            yield from _runs(source)
        else:
            yield source._replace(key_group_sizes=()), source.size


def _runs(source: RekeyedSource) -> Iterator[tuple[RekeyedSource, int]]:
    """Yield runs of a stream's key groups, and the bytes of each."""
    first = size = 0
    for i, length in enumerate(source.key_group_sizes):
        if size and size + length > UNIT_SIZE:
            yield source.part(first, i), size
            first, size = i, 0
        size += length
    if size:
        yield source.part(first, len(source.groups)), size

"""What is read: the key groups of the sources, in runs that a task reads at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rescale.planning.task_sizes import UNIT_SIZE
from rescale.planning.values.rekeying import Rekeying


class ReadUnit(NamedTuple):
    """The groups `first` to `last` of one source of an operator; `number` is its place in the order of all.

    A database or a changelog is read as a whole; their numbers come before those of streams.
    """

    number: int
    operator: int
    source: int
    first: int
    last: int
    size: int


def read_units(rekeyings: Mapping[int, Rekeying]) -> list[ReadUnit]:
    """Units of bounded size, unless a single key group is larger; every key group with bytes is in one of them.

    `rekeyings` are by the number of the operator.
    """
    units: list[ReadUnit] = []
    for number, rekeying in rekeyings.items():
        for source, first, last, size in _runs(rekeying):
            units.append(ReadUnit(len(units), number, source, first, last, size))
    return units


def _runs(rekeying: Rekeying) -> Iterator[tuple[int, int, int, int]]:
    for number, holder in enumerate(rekeying.read_whole):
        yield number, *holder.key_groups, holder.size
    for number, source in enumerate(rekeying.sources, len(rekeying.read_whole)):
        first = size = 0
        for i, group in enumerate(source.groups):
            length = group[1] if group is not None else 0
            if size and size + length > UNIT_SIZE:
                yield number, first, i - 1, size
                first, size = i, 0
            size += length
        if size:
            yield number, first, len(source.groups) - 1, size

"""What is read: the key groups of the sources, in runs that a task reads at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.planning.plan import OperatorPlan, Plan

UNIT_SIZE = 64 * 1024 * 1024


class ReadUnit(NamedTuple):
    """The groups `first` to `last` of one source of an operator; `number` is its place in the order of all.

    A database is read as a whole; the numbers of databases come before those of streams.
    """

    number: int
    operator: int
    source: int
    first: int
    last: int
    size: int


def is_shuffled(operator: OperatorPlan) -> bool:
    """Whether its records are sorted anew: not where all lie in databases, in order, and keep their key groups."""
    if operator.rekeying is None:
        return False
    return bool(operator.rekeying.sources) or operator.max_parallelism != operator.new_max_parallelism


def read_units(plan: Plan) -> list[ReadUnit]:
    """Units of bounded size, unless a single key group is larger; every key group with bytes is in one of them."""
    units: list[ReadUnit] = []
    for number, operator in enumerate(plan.operators):
        for source, first, last, size in _runs(operator):
            units.append(ReadUnit(len(units), number, source, first, last, size))
    return units


def _runs(operator: OperatorPlan) -> Iterator[tuple[int, int, int, int]]:
    if operator.rekeying is None or not is_shuffled(operator):
        return
    for number, database in enumerate(operator.rekeying.databases):
        yield number, *database.key_groups, database.size
    for number, source in enumerate(operator.rekeying.sources, len(operator.rekeying.databases)):
        first = size = 0
        for i, group in enumerate(source.groups):
            length = group[1] if group is not None else 0
            if size and size + length > UNIT_SIZE:
                yield number, first, i - 1, size
                first, size = i, 0
            size += length
        if size:
            yield number, first, len(source.groups) - 1, size

"""How many bytes of keyed state lie in each key group.

The streams of canonical and heap snapshots say where every key group begins. Of a RocksDB directory or a changelog only
the range is known, over which its bytes count as spread evenly; or a directory was measured, which is about right.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from rescale.snapshot.model import Changelog, Database, Operator


class KeyGroupSizes(NamedTuple):
    """Bytes by key group; `exact` is false where some of them are estimated."""

    sizes: tuple[int, ...]
    exact: bool

    @property
    def total(self) -> int:
        return sum(self.sizes)


def key_group_sizes(operator: Operator) -> KeyGroupSizes:
    """Of all keyed state of an operator, headers left out."""
    sizes = [0] * operator.max_parallelism
    for stream in (*operator.keyed, *operator.raw_keyed):
        for key_group, extent in enumerate(stream.groups, stream.first_key_group):
            if extent is not None and 0 <= key_group < len(sizes):
                sizes[key_group] += extent.length
    estimated: tuple[Database | Changelog, ...] = (*operator.databases, *operator.changelogs)
    for holder in estimated:
        for key_group, size in enumerate(holder.key_group_sizes, holder.key_groups.first):
            if key_group < len(sizes):
                sizes[key_group] += size
    return KeyGroupSizes(tuple(sizes), exact=not estimated)


_MOST_FILLED = 0.98
"""Part of the key groups; where more hold keys, the number of these cannot be told from it."""


def about_keys(operator: Operator) -> int | None:
    """How many keys there are, about, if they are so few that key groups are empty; None if that is not so, or unknown.

    Of M key groups n keys leave M × e^(-n ÷ M) empty, on average.
    """
    maximum = operator.max_parallelism
    if operator.databases or operator.changelogs or operator.raw_keyed or not operator.keyed:
        return None
    filled = {key_group for stream in operator.keyed for key_group, _ in stream.filled_groups}
    if len(filled) > _MOST_FILLED * maximum:
        return None
    return round(-maximum * log(1 - len(filled) / maximum))


def evenness(sizes: Sequence[int]) -> float:
    """Worst ÷ mean: 1.0 is even, 2.0 means that one subtask has twice the mean; 1.0 where there is nothing."""
    total = sum(sizes)
    return max(sizes) * len(sizes) / total if total else 1.0

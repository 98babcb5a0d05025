"""Finds the bytes of keyed state in each key group.

The streams of canonical and heap snapshots list where every key group begins. A RocksDB directory or a changelog has
only a range of key groups: its bytes are assumed to be spread evenly, unless the directory was measured
(`table_sizes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from rescale.snapshot.keyed_state import Changelog, Database
from rescale.snapshot.model import Operator


class KeyGroupSizes(NamedTuple):
    """Bytes by key group; `exact` is false if some of them are estimates."""

    sizes: tuple[int, ...]
    exact: bool


def key_group_sizes(operator: Operator) -> KeyGroupSizes:
    """Return the bytes of all keyed state of an operator by key group, without headers."""
    sizes = [0] * operator.max_parallelism
    for stream in (*operator.keyed, *operator.raw_keyed):
        for key_group, extent in enumerate(stream.groups, stream.first_key_group):
            if extent is not None and 0 <= key_group < len(sizes):
                sizes[key_group] += extent.length
    estimated_holders: tuple[Database | Changelog, ...] = (*operator.databases, *operator.changelogs)
    for holder in estimated_holders:
        for key_group, size in enumerate(holder.key_group_sizes, holder.key_groups.first):
            if key_group < len(sizes):
                sizes[key_group] += size
    return KeyGroupSizes(tuple(sizes), exact=not estimated_holders)


_LARGEST_FILLED_SHARE = 0.98
"""Largest share of key groups that may have state if the number of keys is to be estimated."""


def estimated_number_of_keys(operator: Operator) -> int | None:
    """Return an estimate of the number of keys; None if too few key groups are empty, or it is unknown which are.

    On average n keys leave M × e^(-n ÷ M) of M key groups empty.
    """
    max_parallelism = operator.max_parallelism
    if operator.databases or operator.changelogs or operator.raw_keyed or not operator.keyed:
        return None
    filled_groups = {key_group for stream in operator.keyed for key_group, _ in stream.filled_groups}
    if len(filled_groups) > _LARGEST_FILLED_SHARE * max_parallelism:
        return None
    return round(-max_parallelism * log(1 - len(filled_groups) / max_parallelism))


def evenness(sizes: Sequence[int]) -> float:
    """Return the largest size ÷ the mean: 1.0 is even, 2.0 means twice the mean; 1.0 if there are no bytes."""
    total_size = sum(sizes)
    return max(sizes) * len(sizes) / total_size if total_size else 1.0

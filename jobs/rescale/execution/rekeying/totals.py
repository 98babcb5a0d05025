"""Exact sizes of the blocks of every new key group, summed over all map tasks."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Longs
from rescale.text.errors import RescaleError

_COMPRESSION_LEVEL = 1


class SentSizes(NamedTuple):
    """Sizes of the blocks that one map task has sent for an operator, by cell (key group and state)."""

    operator_index: int
    cells: Longs
    sizes: Longs


def pack_sent_sizes(sent_sizes: SentSizes | RescaleError) -> bytes:
    """Pickle and compress the sizes, or an error: one task receives a number for every cell from every map task."""
    return zlib.compress(pickle.dumps(sent_sizes), _COMPRESSION_LEVEL)


def sum_sent_sizes(
    rows: Iterable[bytes], shape_by_operator: dict[int, tuple[int, int]]
) -> dict[int, Longs] | RescaleError:
    """Return for each operator the sizes of all blocks: a row for each key group, and a column for each state.

    Returns an error instead if a task sent one. `shape_by_operator` has (number of key groups, number of states) by
    operator.
    """
    block_sizes = {operator: np.zeros(shape, np.int64) for operator, shape in shape_by_operator.items()}
    errors = []
    for packed_sizes in rows:
        sent_sizes: SentSizes | RescaleError = pickle.loads(zlib.decompress(packed_sizes))
        if isinstance(sent_sizes, RescaleError):
            errors.append(sent_sizes)
            continue
        block_sizes[sent_sizes.operator_index].reshape(-1)[sent_sizes.cells] += sent_sizes.sizes
    return min(errors, key=str) if errors else block_sizes

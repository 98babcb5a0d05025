"""Exact sizes of the blocks of every new key group, which are the sums of all tasks' receipts."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Longs
from rescale.text.errors import RescaleError

_COMPRESSION_LEVEL = 1


class Receipt(NamedTuple):
    """Bytes of the blocks that one map task has sent for an operator, by cell (key group and state)."""

    operator: int
    cells: Longs
    sizes: Longs


def pack_receipt(receipt: Receipt | RescaleError) -> bytes:
    """Compress a receipt or an error: one task reads all receipts, which hold a small number for every cell."""
    return zlib.compress(pickle.dumps(receipt), _COMPRESSION_LEVEL)


def sum_receipts(receipts: Iterable[bytes], shapes: dict[int, tuple[int, int]]) -> dict[int, Longs] | RescaleError:
    """Return the bytes of all blocks by operator, with a row for each key group and a column for each state.

    Returns an error if a task sent one. `shapes` has (number of key groups, number of states) by operator.
    """
    totals = {operator: np.zeros(shape, np.int64) for operator, shape in shapes.items()}
    errors = []
    for packed_receipt in receipts:
        receipt: Receipt | RescaleError = pickle.loads(zlib.decompress(packed_receipt))
        if isinstance(receipt, RescaleError):
            errors.append(receipt)
            continue
        totals[receipt.operator].reshape(-1)[receipt.cells] += receipt.sizes
    return min(errors, key=str) if errors else totals

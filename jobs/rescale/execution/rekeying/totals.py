"""What all units together held: from the receipts to the exact size of the blocks of every new key group."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rescale.errors import RescaleError
from rescale.flink.arrays import Longs

_FAST = 1


class Receipt(NamedTuple):
    """What a task read of an operator: the bytes of its blocks, by slot."""

    operator: int
    slots: Longs
    sizes: Longs


def packed(receipt: Receipt | RescaleError) -> bytes:
    """One task reads those of all: numbers of eight bytes that are small, for every slot that there is."""
    return zlib.compress(pickle.dumps(receipt), _FAST)


def add_up(receipts: Iterable[bytes], shapes: dict[int, tuple[int, int]]) -> dict[int, Longs] | RescaleError:
    """By operator the bytes of all blocks, a row for each key group and a column for each state; or the first error.

    `shapes` says (number of key groups, number of states) by operator.
    """
    totals = {operator: np.zeros(shape, np.int64) for operator, shape in shapes.items()}
    errors = []
    for one in receipts:
        receipt: Receipt | RescaleError = pickle.loads(zlib.decompress(one))
        if isinstance(receipt, RescaleError):
            errors.append(receipt)
            continue
        totals[receipt.operator].reshape(-1)[receipt.slots] += receipt.sizes
    return min(errors, key=str) if errors else totals

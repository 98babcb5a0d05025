"""What all units together held: from the receipts to the exact size of the blocks of every new key group."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rescale.errors import RescaleError
from rescale.flink.arrays import Longs


class Receipt(NamedTuple):
    """What was read of a unit: the bytes of its blocks, by slot."""

    operator: int
    slots: Longs
    sizes: Longs


def add_up(receipts: Iterable[bytes], shapes: dict[int, tuple[int, int]]) -> dict[int, Longs] | RescaleError:
    """By operator the bytes of all blocks, a row for each key group and a column for each state; or the first error.

    `shapes` says (number of key groups, number of states) by operator.
    """
    totals = {operator: np.zeros(shape, np.int64) for operator, shape in shapes.items()}
    errors = []
    for pickled in receipts:
        receipt: Receipt | RescaleError = pickle.loads(pickled)
        if isinstance(receipt, RescaleError):
            errors.append(receipt)
            continue
        totals[receipt.operator].reshape(-1)[receipt.slots] += receipt.sizes
    return min(errors, key=str) if errors else totals

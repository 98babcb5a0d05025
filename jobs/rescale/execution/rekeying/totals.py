"""What all units together held: from the receipts to the exact size of every new key group."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rescale.errors import RescaleError
from rescale.execution.rekeying.key_counter import MOST_KEYS_COUNTED
from rescale.execution.rekeying.spread import Receipt
from rescale.flink.arrays import Longs
from rescale.flink.keyed.record_marks import ID_SIZE


@dataclass
class Total:
    """Of one operator: bytes of blocks by slot, records by state, different keys at least."""

    sizes: Longs
    records: Longs
    keys: int = 0

    def key_groups(self) -> Longs:
        """The length of every new key group in canonical framing: an id in front, and one behind every state."""
        by_state = self.sizes.reshape(-1, len(self.records))
        states = (by_state > 0).sum(axis=1)
        lengths: Longs = by_state.sum(axis=1) + np.where(states, (states + 1) * ID_SIZE, 0)
        return lengths


def add_up(receipts: Iterable[bytes], slots: dict[int, tuple[int, int]]) -> dict[int, Total] | RescaleError:
    """Totals by operator, or the first error. `slots` says (number of slots, number of states) by operator."""
    totals = {
        operator: Total(np.zeros(count, np.int64), np.zeros(states, np.int64))
        for operator, (count, states) in slots.items()
    }
    errors = []
    for pickled in receipts:
        receipt: Receipt | RescaleError = pickle.loads(pickled)
        if isinstance(receipt, RescaleError):
            errors.append(receipt)
            continue
        total = totals[receipt.operator]
        total.sizes[receipt.slots] += receipt.sizes
        total.records += receipt.records
        total.keys = min(MOST_KEYS_COUNTED, total.keys + receipt.keys)
    return min(errors, key=str) if errors else totals

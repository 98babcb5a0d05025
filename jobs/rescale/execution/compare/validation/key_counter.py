"""Lower bound of the number of distinct keys: counts distinct hashes, up to `MOST_KEYS_COUNTED`."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import HashCodes

MOST_KEYS_COUNTED = 100_000
_TABLE_LENGTH = 1 << 18


class KeyCounter:
    def __init__(self) -> None:
        self.count = 0
        self._table = np.full(_TABLE_LENGTH, -1, np.int64)

    def add(self, codes: HashCodes) -> None:
        from rescale.execution.compare.validation import counting_loop

        self.count = counting_loop.count_distinct(codes, self._table, self.count, MOST_KEYS_COUNTED)

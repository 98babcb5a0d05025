"""Different keys are counted by their hashes, and not for ever."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.validation.key_counter import MOST_KEYS_COUNTED, KeyCounter


@given(st.lists(st.lists(st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1)), max_size=5))
def test_different_hashes_are_counted_once(batches: list[list[int]]) -> None:
    counter = KeyCounter()
    for batch in batches:
        counter.add(np.array(batch, np.int32))
    assert counter.count == len({code for batch in batches for code in batch})


def test_counting_ends_at_a_hundred_thousand() -> None:
    counter = KeyCounter()
    for start in range(0, 150_000, 50_000):
        counter.add(np.arange(start, start + 50_000, dtype=np.int32) * 8)
        assert counter.count == min(start + 50_000, MOST_KEYS_COUNTED)

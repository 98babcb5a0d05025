"""Distinct keys are counted by their hashes, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.compare.validation.counting_loop import count_distinct
from rescale.execution.compare.validation.key_counter import MOST_KEYS_COUNTED, KeyCounter


@given(st.lists(st.lists(st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1)), max_size=5))
def test_different_hashes_are_counted_once(batches: list[list[int]]) -> None:
    counter = KeyCounter()
    for batch in batches:
        counter.add(np.array(batch, np.int32))
    assert counter.count == len({code for batch in batches for code in batch})


def test_counting_ends_at_one_hundred_thousand_keys() -> None:
    counter = KeyCounter()
    for start in range(0, 150_000, 50_000):
        counter.add(np.arange(start, start + 50_000, dtype=np.int32) * 8)
        assert counter.count == min(start + 50_000, MOST_KEYS_COUNTED)


HASHES = st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1)
BATCHES = st.lists(st.lists(HASHES), max_size=5)


def check_counting(loop: Callable[..., int], batches: Sequence[Sequence[int]], most_keys: int) -> None:
    """Check a loop with the smallest table, which holds the first distinct hashes."""
    table, count, distinct = np.full(16, -1, np.int64), 0, dict[int, None]()
    for batch in batches:
        with np.errstate(over="ignore"):  # Python warns of overflows, the compiled loop does not
            count = loop(np.array(batch, np.int32), table, count, most_keys)
        for code in batch:
            if len(distinct) < most_keys:
                distinct[code & 0xFFFFFFFF] = None
        assert count == len(distinct)
        assert sorted(table[table != -1]) == sorted(distinct)


@given(BATCHES)
def test_full_table_keeps_the_first_hashes(batches: list[list[int]]) -> None:
    check_counting(count_distinct, batches, 7)


@given(BATCHES)
def test_python_loop_counts_like_the_compiled_loop(batches: list[list[int]]) -> None:
    check_counting(count_distinct.py_func, batches, 7)


@pytest.mark.parametrize("codes", [[-1], [0, 1 << 8, 2 << 8, 0], [*range(20)], [*range(-20, 0)], [0, 1, -1, 2, -2]])
def test_hashes_with_colliding_slots_are_counted_apart(codes: list[int]) -> None:
    for loop in (count_distinct, count_distinct.py_func):
        check_counting(loop, [codes, codes[::-1]], 7)

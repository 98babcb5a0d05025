"""Keys in the order of their bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.keyed.blocks.key_sort_loop import sort_keys


def sorted_by_loop(keys: Sequence[bytes], borders: Sequence[int] = ()) -> list[bytes]:
    ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    data = np.frombuffer(b"".join(keys) or b"\0", np.uint8)
    order = np.empty(len(keys), np.int64)
    bounds = np.array([0, *borders, len(keys)])
    sort_keys(data, begins[: len(keys)], ends, bounds, order, np.empty(len(keys), np.uint64))
    return [keys[i] for i in order]


@given(st.lists(st.binary(max_size=24) | st.text("ab\0", max_size=30).map(str.encode), unique=True))
def test_any_keys_are_sorted_as_bytes(keys: list[bytes]) -> None:
    assert sorted_by_loop(keys) == sorted(keys)


def test_many_keys_with_common_prefixes_are_sorted() -> None:
    rng = random.Random(1)
    keys = [b"\1" * 17 + b"%d" % rng.randrange(10**9) + b"\0" * rng.randint(0, 9) for _ in range(20_000)]
    assert sorted_by_loop(keys) == sorted(keys)


@given(st.lists(st.binary(max_size=12), unique=True), st.data())
def test_keys_are_sorted_between_borders_only(keys: list[bytes], data: st.DataObject) -> None:
    borders = sorted(data.draw(st.lists(st.integers(0, len(keys)))))
    parts = [keys[first:last] for first, last in pairwise([0, *borders, len(keys)])]
    assert sorted_by_loop(keys, borders) == [key for part in parts for key in sorted(part)]

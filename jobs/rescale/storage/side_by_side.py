"""Work on many items in parallel threads, for work that mostly waits for a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREAD_COUNT = 32
"""Largest number of threads that work at once."""


def side_by_side(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return `function(item)` for every item, in order. Raises the error of the first item that has one.

    For a single item, `function` is called in this thread.
    """
    items = list(items)
    if len(items) < 2:
        return list(map(function, items))
    with ThreadPoolExecutor(THREAD_COUNT) as pool:
        return list(pool.map(function, items))

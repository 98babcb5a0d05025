"""Many items at once, where most of the work is waiting for a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 32


def side_by_side(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`work(item)` for every item, in their order; the first error in that order is raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))

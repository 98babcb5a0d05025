"""What the driver does itself, many items at once: it is mostly waiting for the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_CALLS_AT_ONCE = 16


def side_by_side(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`work(item)` for every item, in their order."""
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
        return list(pool.map(work, items))

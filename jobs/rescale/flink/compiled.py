"""Loops over bytes, compiled by numba where it is installed; without it Python runs them as they stand, slowly.

Tasks that move state always have numba; a plan only looks at a sample, and must do with what a small installation has.
Whoever imports a module with such loops waits most of a second for numba, so it is done where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

P = ParamSpec("P")
R = TypeVar("R")

Bytes = npt.NDArray[np.uint8]
Long = Any
"""An int64 to numba, whatever Python would make of it."""

try:
    from numba import njit
except ModuleNotFoundError:

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        """The function as it is."""
        return function
else:

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        """The function in machine code, which is kept on disk for the processes that follow."""
        return cast(Callable[P, R], njit(cache=True)(function))


@compiled
def copy_bytes(source: Bytes, begin: Long, end: Long, target: Bytes, at: Long) -> Long:
    """Copies `source[begin:end]` to `target` from `at` on; returns where they end there.

    A slice that is assigned takes twice to three times as long: numba minds that its places may be negative, one byte
    at a time. Unsigned ones cannot be.
    """
    for i in range(end - begin):
        target[np.uint64(at + i)] = source[np.uint64(begin + i)]
    return at + end - begin

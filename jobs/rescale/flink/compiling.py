"""Who is told when loops have to be compiled, which takes seconds: apart from the loops, which bring all of numba."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[bool], None]] = []


def tell_once(listener: Callable[[bool], None]) -> None:
    """Has `listener` called when the first loop of this process, or of one forked from it, is found nowhere.

    It is told whether machine code is kept for later processes.
    """
    _listeners.append(listener)


def begins(*, kept: bool) -> None:
    """A loop is about to be compiled."""
    while _listeners:
        _listeners.pop()(kept)

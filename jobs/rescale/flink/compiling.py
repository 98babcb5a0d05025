"""Tells listeners that a loop is about to be compiled, which takes seconds.

This module stands apart from `compiled`, so that listeners do not import numba.
"""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[bool], None]] = []


def listen_once(listener: Callable[[bool], None]) -> None:
    """Call `listener` once, when this process (or a fork of it) first compiles a loop that is not in the cache.

    The argument of `listener` says whether later processes can load the machine code.
    """
    _listeners.append(listener)


def notify_listeners(*, will_be_cached: bool) -> None:
    """Call all listeners with `will_be_cached` and remove them, because a loop is about to be compiled."""
    while _listeners:
        _listeners.pop()(will_be_cached)

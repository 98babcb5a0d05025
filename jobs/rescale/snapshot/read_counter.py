"""Counter of the bytes that a thread has read of a unit of work, so that progress moves before a large unit ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def counting_read_bytes(unit_size: int, report_bytes: Callable[[int], None]) -> Iterator[None]:
    """Report the bytes that this thread reads in the block, and at its end the difference to `unit_size`.

    A unit may be read twice, so no more than `unit_size` bytes are reported. If the block raises an error, only the
    bytes read are reported.
    """
    unreported_bytes = unit_size

    def add(size: int) -> None:
        nonlocal unreported_bytes
        size = min(size, unreported_bytes)
        unreported_bytes -= size
        report_bytes(size)

    counter_before = getattr(_thread, "add", None)
    _thread.add = add
    try:
        yield
    finally:
        _thread.add = counter_before
    report_bytes(unreported_bytes)


def count_read_bytes(size: int) -> None:
    """Count bytes that this thread has just read, if it is in a block of `counting_read_bytes`."""
    add = getattr(_thread, "add", None)
    if add is not None:
        add(size)

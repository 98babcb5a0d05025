"""Limits of an input: CPU seconds, and memory in addition to that in use."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 10
MEMORY_BYTES = 1 << 30


class TooSlowError(Exception):
    """Raised if an input takes too long."""


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit the memory that the block allocates in addition to that in use; beyond it, raise `MemoryError`."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


@contextmanager
def limited_time(seconds: float = SECONDS) -> Iterator[None]:
    """End the block with `TooSlowError` after these seconds of CPU time; other work on the machine does not count."""

    def stop(_number: int, _frame: object) -> None:
        raise TooSlowError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

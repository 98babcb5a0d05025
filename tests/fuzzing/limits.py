"""Limits of an input: CPU seconds, and memory in addition to that in use."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CPU_SECONDS_LIMIT = 10
MEMORY_BYTES_LIMIT = 1 << 30


class TooSlowError(Exception):
    """Raised if an input takes too long."""


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit the memory that the block allocates in addition to that in use; beyond it, raise `MemoryError`."""
    bytes_in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (bytes_in_use + MEMORY_BYTES_LIMIT, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft_limit, hard_limit))


@contextmanager
def limited_time(seconds: float = CPU_SECONDS_LIMIT) -> Iterator[None]:
    """End the block with `TooSlowError` after these seconds of CPU time; other work on the machine does not count."""

    def raise_too_slow(_number: int, _frame: object) -> None:
        raise TooSlowError(f"longer than {seconds} s")

    handler_before = signal.signal(signal.SIGPROF, raise_too_slow)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler_before)

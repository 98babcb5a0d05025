"""Stopwatch for the parts of a cut-over."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


class Stopwatch:
    """Stopwatch of a cut-over, started on creation. `seconds_by_part` has the duration of each part that has ended."""

    def __init__(self) -> None:
        self._start_time = time.monotonic()
        self.seconds_by_part: dict[str, float] = {}

    @contextmanager
    def time_part(self, name: str) -> Iterator[None]:
        """Time the block, and log how long it took."""
        start_time = time.monotonic()
        yield
        self.seconds_by_part[name] = round(time.monotonic() - start_time, 3)
        log.info("%s: %.1f s", name, self.seconds_by_part[name])

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the stopwatch began."""
        return time.monotonic() - self._start_time

"""Progress on standard error: a line every few seconds, or `Tick`s for a program that displays it."""

from __future__ import annotations

import sys
import time
from enum import Enum
from typing import ClassVar

from rescale.execution.meter import METER
from rescale.text.units import duration, human_bytes
from rescale.ticks import Tick, line_of

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_TICKS = 0.5
_LEAST_SECONDS_FOR_ESTIMATE = 30.0
"""Time after which the remaining time is estimated even if less than a tenth of the bytes is done."""
_LEAST_FRACTION_FOR_ESTIMATE = 0.01
"""The remaining time is not estimated before this fraction of the bytes is done."""


def say_compiling(will_be_cached: bool) -> None:
    """Print that loops are being compiled; `will_be_cached` says whether later runs can load the code."""
    clause = (
        "which later runs on this machine reuse"
        if will_be_cached
        else "and later runs will compile them again: to cache them, set NUMBA_CACHE_DIR to a writable directory"
    )
    print(f"compiling loops over records, {clause}", file=sys.stderr, flush=True)


class ByteAction(Enum):
    """Action of a step on the bytes that it counts, as text: for bytes `to_do`, and for bytes that are `done`."""

    READ = "to read", "read"
    READ_ON_BOTH_SIDES = "to read on both sides", "read on both sides"
    """Bytes of source and result, or of two snapshots, are read."""
    WRITTEN = "to write", "written"
    COPIED = "to copy", "copied"

    def __init__(self, to_do: str, done: str) -> None:
        self.to_do = to_do
        self.done = done


class Progress:
    """Progress of a step through `total` bytes; `action` says what the step does with them.

    If the parent process draws the progress (`is_drawn`), ticks are printed instead of lines.
    """

    is_drawn: ClassVar[bool] = False

    def __init__(self, step: str, total: int, action: ByteAction) -> None:
        self.step = step
        self.total = total
        self.action = action
        self._start_time = self._reported_at = time.monotonic()
        self._reported_bytes = -1
        self._first_update: tuple[float, int] | None = None

    def update(self, bytes_done: int) -> None:
        """Report the bytes done, unless the last report was moments ago; no two lines report the same bytes."""
        now = time.monotonic()
        if bytes_done and self._first_update is None:
            self._first_update = now, bytes_done
        if self.is_drawn:
            self._print_tick(now, bytes_done)
        elif now - self._reported_at >= _SECONDS_BETWEEN_LINES and bytes_done > self._reported_bytes:
            self._reported_at, self._reported_bytes = now, bytes_done
            if not bytes_done:
                self.say(f"begun, {human_bytes(self.total)} {self.action.to_do}")
                return
            seconds_left = self._seconds_left(bytes_done, self._bytes_per_second(now, bytes_done))
            estimate = f", about {duration(seconds_left)} left" if seconds_left is not None else ""
            self.say(f"{human_bytes(bytes_done)} of {human_bytes(self.total)} {self.action.done}{estimate}")

    def _print_tick(self, now: float, bytes_done: int) -> None:
        """Print a tick, unless the step began, or the last tick was printed, less than half a second ago."""
        if now - self._reported_at >= _SECONDS_BETWEEN_TICKS:
            self._reported_at, self._reported_bytes = now, bytes_done
            bytes_per_second = self._bytes_per_second(now, bytes_done)
            seconds_left = self._seconds_left(bytes_done, bytes_per_second)
            self._print(line_of(Tick(self.step, bytes_done, self.total, bytes_per_second, seconds_left)))

    def _seconds_left(self, bytes_done: int, bytes_per_second: float | None) -> float | None:
        """Return the seconds left; None if unknown, or if only the last tasks have yet to end."""
        if bytes_per_second is None or bytes_done >= self.total:
            return None
        return (self.total - bytes_done) / bytes_per_second

    def _bytes_per_second(self, now: float, bytes_done: int) -> float | None:
        """Return bytes per second since the first bytes were done; None if unknown.

        Before the first bytes, tasks start and loops are compiled. Loops may also be compiled later, so the rate is
        unknown until a hundredth of the bytes is done, and either a tenth is done or some time has passed.
        """
        first_time, first_bytes_done = self._first_update or (now, bytes_done)
        if bytes_done < self.total * _LEAST_FRACTION_FOR_ESTIMATE:
            return None
        least_seconds = _SECONDS_BETWEEN_LINES if bytes_done >= self.total / 10 else _LEAST_SECONDS_FOR_ESTIMATE
        if now - first_time < least_seconds or bytes_done <= first_bytes_done:
            return None
        return (bytes_done - first_bytes_done) / (now - first_time)

    def finish(self, bytes_done: int) -> None:
        seconds = time.monotonic() - self._start_time
        if self.is_drawn and self._reported_bytes >= 0:
            self._print(line_of(Tick(self.step, bytes_done, self.total, over=True)))
        METER.add_stage(self.step, bytes_done, seconds)
        self.say(f"{human_bytes(bytes_done)} {self.action.done} in {seconds:.1f} s")

    def say(self, message: str) -> None:
        self._print(f"{self.step}: {message}")

    @staticmethod
    def _print(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

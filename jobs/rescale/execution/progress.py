"""Progress in words, on standard error: one line whenever it is worth one. Who draws it gets `Tick`s instead."""

from __future__ import annotations

import sys
import time
from typing import ClassVar

from rescale.execution.meter import METER
from rescale.report.units import duration, human_bytes
from rescale.ticks import Tick, line_of

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_TICKS = 0.5
_SECONDS_TO_ESTIMATE_FROM = 30.0
"""Where little is done yet."""
_PARTS_OF_WHICH_ONE_IS_DONE = 100


def say_compiling(kept: bool) -> None:
    """Said by whoever finds no machine code for a loop; `kept`: it is, for those who come later."""
    which = (
        "which later runs on this machine find"
        if kept
        else "and later runs will again: no directory for them can be written to, so let NUMBA_CACHE_DIR name one"
    )
    print(f"compiling loops over records, {which}", file=sys.stderr, flush=True)


class Progress:
    """How much of `total` bytes a step has done. It is `drawn` where whoever started this process does that."""

    drawn: ClassVar[bool] = False

    def __init__(self, step: str, total: int) -> None:
        self.step = step
        self.total = total
        self._started = self._said = time.monotonic()
        self._done = -1
        self._first: tuple[float, int] | None = None

    def at(self, done: int) -> None:
        """Says where the step is, unless it said so a moment ago or is where it was."""
        now = time.monotonic()
        if done and self._first is None:
            self._first = now, done
        if self.drawn:
            self._tick(now, done)
        elif now - self._said >= _SECONDS_BETWEEN_LINES and done > self._done:
            self._said, self._done = now, done
            if not done:
                self.say(f"begun, {human_bytes(self.total)} to go")
                return
            left = self._left(done, self._rate(now, done))
            words = f", about {duration(left)} left" if left is not None else ""
            self.say(f"{human_bytes(done)} of {human_bytes(self.total)}{words}")

    def _tick(self, now: float, done: int) -> None:
        """What is over at once is never drawn."""
        if now - self._said >= _SECONDS_BETWEEN_TICKS:
            self._said, self._done = now, done
            rate = self._rate(now, done)
            self._print(line_of(Tick(self.step, done, self.total, rate, self._left(done, rate))))

    def _left(self, done: int, rate: float | None) -> float | None:
        """Seconds; None where nothing tells, and where nothing but the end of the last tasks is waited for."""
        return (self.total - done) / rate if rate is not None and done < self.total else None

    def _rate(self, now: float, done: int) -> float | None:
        """Bytes a second since the first bytes, to estimate from: until then tasks start, and loops compile.

        More may be compiled later, so it also takes a good part of the bytes, or some time; and of what is hardly begun
        nobody knows how long it takes.
        """
        first, before = self._first or (now, done)
        if done < self.total / _PARTS_OF_WHICH_ONE_IS_DONE:
            return None
        enough = _SECONDS_BETWEEN_LINES if done >= self.total / 10 else _SECONDS_TO_ESTIMATE_FROM
        if now - first < enough or done <= before:
            return None
        return (done - before) / (now - first)

    def finish(self, done: int) -> None:
        seconds = time.monotonic() - self._started
        if self.drawn and self._done >= 0:
            self._print(line_of(Tick(self.step, done, self.total, over=True)))
        METER.ended(self.step, done, seconds)
        self.say(f"{human_bytes(done)} in {seconds:.1f} s")

    def say(self, what: str) -> None:
        self._print(f"{self.step}: {what}")

    @staticmethod
    def _print(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

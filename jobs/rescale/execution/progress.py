"""Progress in words, on standard error: one line whenever it is worth one."""

from __future__ import annotations

import sys
import time

from rescale.report.units import human_bytes

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_TO_ESTIMATE_FROM = 30.0
"""Where little is done yet."""


def say_compiling() -> None:
    """Said by whoever finds no machine code for a loop."""
    print("compiling loops over records, which later runs on this machine find", file=sys.stderr, flush=True)


class Progress:
    """How much of `total` bytes a step has done."""

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
        if now - self._said >= _SECONDS_BETWEEN_LINES and done > self._done:
            self._said, self._done = now, done
            if not done:
                self.say(f"begun, {human_bytes(self.total)} to go")
                return
            self.say(f"{human_bytes(done)} of {human_bytes(self.total)}{self._left(now, done)}")

    def _left(self, now: float, done: int) -> str:
        """An estimate from what was done since the first bytes were: until then tasks start, and loops compile.

        More may be compiled later, so it also takes a good part of the bytes, or some time.
        """
        first, before = self._first or (now, done)
        enough = _SECONDS_BETWEEN_LINES if done >= self.total / 10 else _SECONDS_TO_ESTIMATE_FROM
        if now - first < enough or done <= before:
            return ""
        return f", about {(self.total - done) * (now - first) / (done - before):.0f} s left"

    def finish(self, done: int) -> None:
        seconds = time.monotonic() - self._started
        self.say(f"{human_bytes(done)} in {seconds:.1f} s")

    def say(self, what: str) -> None:
        print(f"{self.step}: {what}", file=sys.stderr, flush=True)

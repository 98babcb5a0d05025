"""Progress in words, on standard error: one line whenever it is worth one."""

from __future__ import annotations

import sys
import time

from rescale.report.units import human_bytes

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """How much of `total` bytes a step has done."""

    def __init__(self, step: str, total: int) -> None:
        self.step = step
        self.total = total
        self._started = self._said = time.monotonic()
        self._done = -1

    def at(self, done: int) -> None:
        """Says where the step is, unless it said so a moment ago or is where it was."""
        now = time.monotonic()
        if now - self._said >= _SECONDS_BETWEEN_LINES and done > self._done:
            self._said, self._done = now, done
            if not done:
                self.say(f"begun, {human_bytes(self.total)} to go")
                return
            rate = done / (now - self._started)
            left = f", about {(self.total - done) / rate:.0f} s left" if rate else ""
            self.say(f"{human_bytes(done)} of {human_bytes(self.total)}{left}")

    def finish(self, done: int) -> None:
        seconds = time.monotonic() - self._started
        self.say(f"{human_bytes(done)} in {seconds:.1f} s")

    def say(self, what: str) -> None:
        print(f"{self.step}: {what}", file=sys.stderr, flush=True)

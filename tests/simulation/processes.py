"""Processes that take turns: one runs while the others stand still, and the seed decides which is next.

Each process is a greenlet, which gives up its turn only at a request, so that a history is reproducible. All processes
run in one thread, which costs little and can be interrupted. A lost process stands still, and may go on beside the next
try of its step: a zombie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

from simulation.endless import EndlessError

_FOREVER = 1 << 60


class Crash(BaseException):
    """Death of a killed process; no code of ours may catch it."""


class Process:
    """A simulated process of `body`, which stands still until `go_on`.

    At request number `crash_at` (from 1), it is killed: before the bucket carries out the request, or, with `after`,
    once the bucket has done so. At request number `lost_at`, it is reported as dead although it is not. `result` and
    `error` are set when it `is_over`; `request` is its current or last request; `has_misread` tells whether a bit was
    flipped in bytes that it read.
    """

    def __init__(
        self, name: str, body: Callable[[], Any], *, crash_at: int = 0, after: bool = False, lost_at: int = 0
    ) -> None:
        self.name = name
        self.requests = 0
        self.request = ""
        self.is_over = False
        self.is_lost = False
        self.has_misread = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._body = body
        self._crash_at = crash_at
        self._after = after
        self._lost_at = lost_at
        self._requests_left = 0
        self._killed = False
        self._stack = _Stack(self)

    def go_on(self, requests: int = _FOREVER) -> None:
        """Let the process make at most this number of requests, or run until it is over or lost."""
        if self.is_over:
            return
        self._requests_left = requests
        self._stack.parent = getcurrent()
        self._stack.switch()

    def kill(self) -> None:
        """Kill the process where it stands, unless it is over."""
        self._killed = True
        if not self.requests and not self.is_over:
            self.is_over, self.error = True, Crash()
        self.go_on()

    def before_request(self, request: str) -> None:
        """Count a request in the process's own turn.

        A killed process dies at every later request, too, because its cleanup must not run.
        """
        if self._killed:
            raise Crash
        self.requests += 1
        if self.requests == self._lost_at:
            self.is_lost = True
            self._stand_still()
        elif not self._requests_left:
            self._stand_still()
        self._requests_left -= 1
        if self.requests == self._crash_at and not self._after:
            self._killed = True
        if self._killed:  # perhaps while it stood still
            raise Crash
        self.request = request

    def end_here(self) -> None:
        """Kill the process in its own turn; its request is not made."""
        self._killed = True
        raise Crash

    def after_request(self) -> None:
        if self.requests == self._crash_at:
            self._killed = True
        if self._killed:
            raise Crash

    def _stand_still(self) -> None:
        self._stack.parent.switch()

    def run(self) -> None:
        """Run the body to its end; `go_on` raises no error but that of an endless history."""
        try:
            self.result = self._body()
        except EndlessError:
            raise
        except BaseException as error:
            self.error = error
        finally:
            self.is_over = True


class _Stack(greenlet):
    """Call stack of a simulated process."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.run)
        self.process = process


def this_process() -> Process | None:
    """Return the process whose turn it is."""
    return getattr(getcurrent(), "process", None)

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

_ALL_REQUESTS = 1 << 60


class Crash(BaseException):
    """Death of a killed process; no code of ours may catch it."""


class Process:
    """A simulated process of `body`, which stands still until `go_on`.

    At request `crash_request_number` (from 1), it is killed: before the bucket carries out the request, or, with
    `crashes_after`, once the bucket has done so. At request `lost_request_number`, it is reported as dead although it
    is not. `result` and `error` are set when it `is_over`; `request` is its current or last request; `has_misread`
    tells whether a bit was flipped in bytes that it read.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], Any],
        *,
        crash_request_number: int = 0,
        crashes_after: bool = False,
        lost_request_number: int = 0,
    ) -> None:
        self.name = name
        self.request_count = 0
        self.request = ""
        self.is_over = False
        self.is_lost = False
        self.has_misread = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._body = body
        self._crash_request_number = crash_request_number
        self._crashes_after = crashes_after
        self._lost_request_number = lost_request_number
        self._requests_left = 0
        self._is_killed = False
        self._stack = _Stack(self)

    def go_on(self, most_requests: int = _ALL_REQUESTS) -> None:
        """Let the process make at most this number of requests, or run until it is over or lost."""
        if self.is_over:
            return
        self._requests_left = most_requests
        self._stack.parent = getcurrent()
        self._stack.switch()

    def kill(self) -> None:
        """Kill the process where it stands, unless it is over."""
        self._is_killed = True
        if not self.request_count and not self.is_over:
            self.is_over, self.error = True, Crash()
        self.go_on()

    def before_request(self, request_line: str) -> None:
        """Count a request in the process's own turn.

        A killed process dies at every later request, too, because its cleanup must not run.
        """
        if self._is_killed:
            raise Crash
        self.request_count += 1
        if self.request_count == self._lost_request_number:
            self.is_lost = True
            self._stand_still()
        elif not self._requests_left:
            self._stand_still()
        self._requests_left -= 1
        if self.request_count == self._crash_request_number and not self._crashes_after:
            self._is_killed = True
        if self._is_killed:  # perhaps while it stood still
            raise Crash
        self.request = request_line

    def end_here(self) -> None:
        """Kill the process in its own turn; its request is not made."""
        self._is_killed = True
        raise Crash

    def after_request(self) -> None:
        if self.request_count == self._crash_request_number:
            self._is_killed = True
        if self._is_killed:
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

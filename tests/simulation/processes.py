"""Processes that take turns: one runs while the others stand still, and who is next is drawn from the seed.

Each is a greenlet, which gives up its turn only where it makes a request, so that a history is the same whenever it is
played again: all are in one thread, which costs little and can be interrupted. One that is lost stands still where it
was, and may go on later, when its successor is at work: a zombie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

from simulation.endless import EndlessError

_FOREVER = 1 << 60


class Crash(BaseException):
    """A process is killed: nothing of ours may catch it."""


class Process:
    """`body` in a process of its own, which stands still until `go_on`.

    It is killed at request number `crash_at` (from 1), before it is carried out or after it; at `lost_at` whoever waits
    for it is told that it died, and it did not. `result` and `error` are there when it `is_over`; `request` is the one
    that it makes, or made last; a bit was flipped of what it read if it `has_misread`.
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
        self._allowed = 0
        self._killed = False
        self._stack = _Stack(self)

    def go_on(self, requests: int = _FOREVER) -> None:
        """Lets it make so many requests at most, or until it is over or lost."""
        if self.is_over:
            return
        self._allowed = requests
        self._stack.parent = getcurrent()
        self._stack.switch()

    def kill(self) -> None:
        """Where it stands, if it has not come to its end."""
        self._killed = True
        if not self.requests and not self.is_over:
            self.is_over, self.error = True, Crash()
        self.go_on()

    def before_request(self, request: str) -> None:
        """In its own turn. One that is killed dies at every later request, too: what cleans up on its way out would
        not have run.
        """
        if self._killed:
            raise Crash
        self.requests += 1
        if self.requests == self._lost_at:
            self.is_lost = True
            self._stand_still()
        elif not self._allowed:
            self._stand_still()
        self._allowed -= 1
        if self.requests == self._crash_at and not self._after:
            self._killed = True
        if self._killed:  # be it where it stood still
            raise Crash
        self.request = request

    def end_here(self) -> None:
        """In its own turn: it is killed, and the request is not made."""
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
        """To its end; whoever let it go on is told of no error but that there is no end."""
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
    """The one whose turn it is."""
    return getattr(getcurrent(), "process", None)

"""Processes that take turns: one runs while the others stand still, and who is next is drawn from the seed.

Each is a thread, which gives up its turn only where it makes a request, so that a history is the same whenever it is
played again. One that is lost stands still where it was, and may go on later, when its successor is at work: a zombie.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_FOREVER = 1 << 60

_this = threading.local()


class Crash(BaseException):
    """A process is killed: nothing of ours may catch it."""


class Process:
    """`body` in a process of its own, which stands still until `go_on`.

    It is killed at request number `crash_at` (from 1), before it is carried out or after it; at `lost_at` whoever waits
    for it is told that it died, and it did not. `result` and `error` are there when it `is_over`.
    """

    def __init__(
        self, name: str, body: Callable[[], Any], *, crash_at: int = 0, after: bool = False, lost_at: int = 0
    ) -> None:
        self.name = name
        self.requests = 0
        self.is_over = False
        self.is_lost = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._body = body
        self._crash_at = crash_at
        self._after = after
        self._lost_at = lost_at
        self._allowed = 0
        self._killed = False
        self._its_turn, self._our_turn = threading.Lock(), threading.Lock()
        self._its_turn.acquire()
        self._our_turn.acquire()
        self._thread: threading.Thread | None = None

    def go_on(self, requests: int = _FOREVER) -> None:
        """Lets it make so many requests at most, or until it is over or lost."""
        if self.is_over:
            return
        self._allowed = requests
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._its_turn.release()
        self._our_turn.acquire()

    def kill(self) -> None:
        self._killed = True
        if self._thread is None:
            self.is_over, self.error = True, Crash()
        self.go_on()

    def before_request(self) -> None:
        """In its own thread."""
        self._die_if_killed()
        self.requests += 1
        if self.requests == self._lost_at:
            self.is_lost = True
            self._stand_still()
        elif not self._allowed:
            self._stand_still()
        self._allowed -= 1
        if self.requests == self._crash_at and not self._after:
            self._killed = True
        self._die_if_killed()

    def after_request(self) -> None:
        if self.requests == self._crash_at:
            self._killed = True
        self._die_if_killed()

    def _die_if_killed(self) -> None:
        """Also at every later request: what cleans up on its way out would not have run."""
        if self._killed:
            raise Crash

    def _stand_still(self) -> None:
        self._our_turn.release()
        self._its_turn.acquire()

    def _run(self) -> None:
        _this.process = self
        try:
            self.result = self._body()
        except BaseException as error:
            self.error = error
        finally:
            self.is_over = True
            self._our_turn.release()


def this_process() -> Process | None:
    """The one whose thread this is."""
    return getattr(_this, "process", None)

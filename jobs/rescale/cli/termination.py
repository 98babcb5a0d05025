"""SIGTERM, with which other programs end this one, is answered like Ctrl-C: what was begun is ended, and said to be."""

from __future__ import annotations

import signal
from types import FrameType

INTERRUPTED = 130
TERMINATED = 143
"""What shells make of a process that Ctrl-C, or SIGTERM, has ended."""


class Terminated(KeyboardInterrupt):
    """Raised where SIGTERM finds the program."""


def exit_code_of(how: KeyboardInterrupt) -> int:
    return TERMINATED if isinstance(how, Terminated) else INTERRUPTED


def answer_termination() -> None:
    signal.signal(signal.SIGTERM, _terminated)


def _terminated(_: int, __: FrameType | None) -> None:
    raise Terminated

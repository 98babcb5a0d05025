"""Detection of endless histories by a limit of processor time that no other history reaches."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 60.0
"""Limit of processor time, which other work on the machine does not use up; a history takes below a second."""

_AGAIN = 1.0
"""Seconds after which the error is raised again, in case code has caught it the first time."""


class EndlessError(BaseException):
    """Error of an endless history, with its place; no code of ours may catch it."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise `EndlessError` in the simulated process whose turn it is, if the block takes too long."""

    def end(_: int, frame: FrameType | None) -> None:
        where = []
        while frame is not None:
            where.append(f"{frame.f_code.co_name} in {frame.f_globals.get('__name__')}, line {frame.f_lineno}")
            frame = frame.f_back
        raise EndlessError(f"it goes on for more than {SECONDS:g} s: {'; '.join(where[:30])}")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

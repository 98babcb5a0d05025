"""Histories that never end are noticed: each has so much time of the processor, many times what any needs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 60.0
"""Limit of processor time, so that a busy machine is no reason to stop; a history takes less than one second."""

_AGAIN = 1.0
"""Seconds after which it is said once more, where nobody could hear it."""


class EndlessError(BaseException):
    """Nothing of ours may catch it; it says where the history was."""


@contextmanager
def limited() -> Iterator[None]:
    """`EndlessError` in the block, in whichever process has its turn, once it has taken too long."""

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

"""Detection of endless histories by a limit of processor time that no other history reaches."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CPU_SECONDS_LIMIT = 60.0
"""Processor seconds after which a history counts as endless; a history takes below a second."""

_REPEAT_SECONDS = 1.0
"""Seconds after which the error is raised again, in case code has caught it the first time."""


class EndlessError(BaseException):
    """Error of an endless history; its message has the call stack, and no code of ours may catch it."""


@contextmanager
def limited_cpu_time() -> Iterator[None]:
    """Raise `EndlessError` in the simulated process whose turn it is, if the block takes too long.

    Only the processor time of this process counts, and no other work on the machine.
    """

    def raise_endless(_: int, frame: FrameType | None) -> None:
        stack_lines = []
        while frame is not None:
            stack_lines.append(f"{frame.f_code.co_name} in {frame.f_globals.get('__name__')}, line {frame.f_lineno}")
            frame = frame.f_back
        raise EndlessError(f"it goes on for more than {CPU_SECONDS_LIMIT:g} s: {'; '.join(stack_lines[:30])}")

    handler_before = signal.signal(signal.SIGPROF, raise_endless)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_LIMIT, _REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler_before)

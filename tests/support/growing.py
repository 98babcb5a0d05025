"""How work grows with the number of subtasks: counted in lines of ours that run, not in seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import rescale

_OURS = str(Path(rescale.__file__).parent)


def lines_run_by(action: Callable[[], object]) -> int:
    """Of the package, in this thread and in those that it starts; comprehensions count for each of their items."""
    lines = count()

    def line(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        if event == "line":
            next(lines)
        return line

    def called(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        return line if frame.f_code.co_filename.startswith(_OURS) else None

    before = sys.gettrace()
    threading.settrace(called)
    sys.settrace(called)
    try:
        action()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
    return next(lines)


def lines_for_each_pair(prepared: Callable[[int], Callable[[], object]], number: int) -> float:
    """How many lines more run for each pair of subtasks; `prepared` gives what is done with so many of them.

    Of a + b n + c n² it is c: what is done once, and what is done for each, falls out of the second difference.
    """
    lines_run_by(prepared(number))  # what is only done the first time
    one, two, three = (lines_run_by(prepared(times * number)) for times in (1, 2, 3))
    return (one - 2 * two + three) / (2 * number * number)

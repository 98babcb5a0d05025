"""Handling of SIGTERM like Ctrl-C: the command ends its child processes, and reports that it was interrupted."""

from __future__ import annotations

import signal
from types import FrameType

_INTERRUPTED_EXIT_CODE = 130
_TERMINATED_EXIT_CODE = 143
"""Exit codes that shells report for a process that Ctrl-C or SIGTERM has ended."""


class Terminated(KeyboardInterrupt):
    """Exception that SIGTERM raises in the main thread."""


def exit_code_of(interruption: KeyboardInterrupt) -> int:
    return _TERMINATED_EXIT_CODE if isinstance(interruption, Terminated) else _INTERRUPTED_EXIT_CODE


def raise_on_sigterm() -> None:
    signal.signal(signal.SIGTERM, _raise_terminated)


def _raise_terminated(_: int, __: FrameType | None) -> None:
    raise Terminated

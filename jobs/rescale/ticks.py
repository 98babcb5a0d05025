"""Progress of a step, sent as lines of JSON from its process to the process that displays it.

Each such line begins with a record separator (RFC 7464), and no other line does.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rescale.text.errors import DECODE_ERRORS

_SEPARATOR = "\x1e"


@dataclass(frozen=True)
class Tick:
    """Progress of a phase in bytes. `rate` is in bytes per second, and `left` the seconds to go; None if unknown.

    `over` marks the last tick of a phase.
    """

    phase: str
    done: int
    total: int
    rate: float | None = None
    left: float | None = None
    over: bool = False


END_OF_RUN = Tick("", 0, 0, over=True)
"""Tick that a lasting process sends after a run: all lines of the run come before it."""


def line_of(tick: Tick) -> str:
    """Return the line for a tick, without a line break."""
    return _SEPARATOR + msgspec.json.encode(tick).decode()


def tick_of(line: str) -> Tick | None:
    """Return the tick in a line that `line_of` returned; None for any other line."""
    if not line.startswith(_SEPARATOR):
        return None
    try:
        return msgspec.json.decode(line[len(_SEPARATOR) :], type=Tick)
    except DECODE_ERRORS:
        return None

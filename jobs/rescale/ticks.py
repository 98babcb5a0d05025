"""Progress of a step, sent as lines of JSON from its process to the one that draws it.

Each begins with a record separator (RFC 7464), which no other line does.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

_SEPARATOR = "\x1e"


@dataclass(frozen=True)
class Tick:
    """`done` of `total` bytes of a phase, at `rate` bytes a second and with `left` seconds to go where that is known.

    The last one of a phase says that it is `over`.
    """

    phase: str
    done: int
    total: int
    rate: float | None = None
    left: float | None = None
    over: bool = False


def line_of(tick: Tick) -> str:
    """Return the line of a log that holds a tick, without its end."""
    return _SEPARATOR + msgspec.json.encode(tick).decode()


def tick_of(line: str) -> Tick | None:
    """The mirror of `line_of`; None of any other line."""
    if not line.startswith(_SEPARATOR):
        return None
    try:
        return msgspec.json.decode(line[len(_SEPARATOR) :], type=Tick)
    except msgspec.MsgspecError:
        return None

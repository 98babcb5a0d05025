"""Numbers and times as people read them."""

from __future__ import annotations

import humanize

_DAY = 24 * 3600
_MOST_YEARS = 1000
"""Nobody waits so long, and Python's calendar ends soon after."""


def human_bytes(size: float) -> str:
    """Decimal units, three digits: `1.23 MB`."""
    return humanize.naturalsize(size, format="%.3g").replace("Byte", "byte")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 operator`, `2 operators`; with a `plural` that needs more than an s, `2 copies`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """No finer than anybody would plan with: `40 seconds`, `3 minutes`, `2 hours and 30 minutes`."""
    if seconds >= _MOST_YEARS * 365 * _DAY:
        return f"{_MOST_YEARS:,} years and more"
    unit = "seconds" if seconds < 90 else "minutes" if seconds < _DAY else "hours"
    return humanize.precisedelta(max(1, seconds), minimum_unit=unit, format="%0.0f")


def when(instant: str | None) -> str:
    """An instant in the words of a document, which says None of a time that no store or calendar has."""
    return instant or "at a time that is not known"


def arrow(old: int, new: int) -> str:
    """`3 → 5`, or just `3` for what stays."""
    return str(old) if old == new else f"{old} → {new}"

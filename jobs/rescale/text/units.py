"""Numbers and times as people read them."""

from __future__ import annotations

import humanize

_DAY_SECONDS = 24 * 3600
_MOST_YEARS = 1000
"""Longest duration in years that is printed exactly; Python's calendar does not reach much further."""


def human_bytes(size: float) -> str:
    """Return a size in decimal units, with three digits: `1.23 MB`."""
    return humanize.naturalsize(size, format="%.3g").replace("Byte", "byte")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, as in `1 operator` or `2 operators`; `plural` is needed if it is irregular."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """Return a duration in a coarse unit: `40 seconds`, `3 minutes`, `2 hours and 30 minutes`."""
    if seconds >= _MOST_YEARS * 365 * _DAY_SECONDS:
        return f"{_MOST_YEARS:,} years and more"
    unit = "seconds" if seconds < 90 else "minutes" if seconds < _DAY_SECONDS else "hours"
    return humanize.precisedelta(max(1, seconds), minimum_unit=unit, format="%0.0f")


def instant_text(instant: str | None) -> str:
    """Return an instant, which a document has as text, or `at an unknown time` for None."""
    return instant or "at an unknown time"


def arrow(old: int, new: int) -> str:
    """Return `3 → 5`, or only `3` if both are equal."""
    return str(old) if old == new else f"{old} → {new}"

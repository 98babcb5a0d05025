"""Numbers as people read them."""

from __future__ import annotations


def human_bytes(size: float) -> str:
    """Decimal units, three digits: `1.23 MB`."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if abs(size) < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{_rounded(size, 3)} {unit}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 operator`, `2 operators`; with a `plural` that needs more than an s, `2 copies`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """One unit, two digits: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{_rounded(seconds / 60, 2)} min" if seconds < 90 * 60 else f"{_rounded(seconds / 3600, 2)} h"


def _rounded(number: float, digits: int) -> str:
    """To so many digits, but never to tens: `1.2`, `12`, `1,234`."""
    return f"{number:.{digits}g}" if abs(number) < 10**digits - 0.5 else f"{number:,.0f}"


def arrow(old: int, new: int) -> str:
    """`3 → 5`, or just `3` for what stays."""
    return str(old) if old == new else f"{old} → {new}"

"""Numbers as people read them."""

from __future__ import annotations


def human_bytes(size: float) -> str:
    """Decimal units, three digits: `1.23 MB`."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if abs(size) < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"


def counted(number: int, noun: str) -> str:
    """`1 operator`, `2 operators`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")

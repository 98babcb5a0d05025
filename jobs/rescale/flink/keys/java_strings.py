"""`String.hashCode` of Java, for single strings."""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Return the `String.hashCode` of a text (signed, 32 bits), which is computed over UTF-16 units."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code

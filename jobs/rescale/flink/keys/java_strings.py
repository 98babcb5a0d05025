"""`String.hashCode` of Java, for single strings."""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Return the `String.hashCode` of a text (signed, 32 bits), which is computed over UTF-16 units."""
    hash_code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        hash_code = (31 * hash_code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return hash_code - (1 << 32) if hash_code >= 1 << 31 else hash_code

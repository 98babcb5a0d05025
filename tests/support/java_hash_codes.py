"""Hash codes of Java values, by the rules of their classes."""

from __future__ import annotations

import struct


def wrapped(number: int) -> int:
    """Return the number as a signed 32-bit int, as Java's overflow leaves it."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def folded(codes: list[int], start: int) -> int:
    code = start
    for item in codes:
        code = wrapped(31 * code + item)
    return code


def long_code(number: int) -> int:
    unsigned = number % (1 << 64)
    return wrapped(unsigned ^ unsigned >> 32)


def big_integer_code(number: int) -> int:
    magnitude, code = abs(number), 0
    for shift in range(magnitude.bit_length() // 32 * 32, -1, -32):
        code = code * 31 + (magnitude >> shift & 0xFFFFFFFF)
    return wrapped(code if number >= 0 else -code)


def big_decimal_code(number: tuple[int, int]) -> int:
    unscaled, scale = number
    if -(1 << 63) < unscaled < 1 << 63:
        high, low = divmod(abs(unscaled), 1 << 32)
        part = wrapped(high * 31 + low)
        return wrapped(31 * (part if unscaled >= 0 else -part) + scale)
    return wrapped(31 * big_integer_code(unscaled) + scale)


def date_code(date: tuple[int, int, int]) -> int:
    year, month, day = date
    return wrapped(year & 0xFFFFF800 ^ (year << 11) + (month << 6) + day)


def time_code(time: tuple[int, int, int, int]) -> int:
    hour, minute, second, nano = time
    return long_code((hour * 3600 + minute * 60 + second) * 10**9 + nano)


def float_bits(kind: str, integer: str, value: float) -> int:
    canonical = struct.pack(kind, float("nan") if value != value else value)
    bits: int = struct.unpack(integer, canonical)[0]
    return bits

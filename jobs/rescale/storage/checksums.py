"""Checksums that a store has computed itself, and how those of files are reckoned from those of their parts.

Of A, B and A+B the CRCs (which begin and end with all bits inverted, as S3's do) hold `crc(A+B) = crc(A)·x^(8·|B|) ^
crc(B)`, modulo the polynomial. So with the CRC of a file and its first bytes that of all others is known, and with
those of the ends of files that of all of them end to end: none of it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple


class Checksum(NamedTuple):
    """Of a whole file: `value` by an `algorithm`, as S3 calls it."""

    algorithm: str
    value: int


@dataclass(frozen=True)
class Crc:
    """`polynomial` without its highest power, the lowest first (reflected)."""

    name: str
    bits: int
    polynomial: int

    def of(self, data: bytes) -> int:
        """Of few bytes."""
        ones = (1 << self.bits) - 1
        crc = ones
        for byte in data:
            crc = self._table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return crc ^ ones

    def joined(self, first: int, second: int, length: int) -> int:
        """Of two runs of bytes end to end; the second one has `length`."""
        return _times(first, _power(self, 8 * length), self) ^ second

    def rest(self, whole: int, first: int, length: int) -> int:
        """Of the last `length` bytes, where that of all bytes and that of the first ones are known."""
        return self.joined(first, whole, length)

    @cached_property
    def _table(self) -> list[int]:
        table = list(range(256))
        for _ in range(8):
            table = [(self.polynomial if crc & 1 else 0) ^ crc >> 1 for crc in table]
        return table


CRCS = {crc.name: crc for crc in (Crc("CRC64NVME", 64, 0x9A6C9329AC4BC9B5), Crc("CRC32C", 32, 0x82F63B78))}
"""Those that S3 has of whole objects, however they were uploaded; the stronger one first."""


def _times(a: int, b: int, crc: Crc) -> int:
    """The product of two polynomials, modulo that of the CRC; the highest bit is x^0."""
    product, bit = 0, 1 << crc.bits - 1
    while a:
        if a & bit:
            product ^= b
            a ^= bit
        bit >>= 1
        b = (crc.polynomial if b & 1 else 0) ^ b >> 1
    return product


@lru_cache(1 << 16)
def _power(crc: Crc, exponent: int) -> int:
    """x^exponent, modulo the polynomial."""
    result, square = 1 << crc.bits - 1, 1 << crc.bits - 2
    while exponent:
        if exponent & 1:
            result = _times(result, square, crc)
        square = _times(square, square, crc)
        exponent >>= 1
    return result

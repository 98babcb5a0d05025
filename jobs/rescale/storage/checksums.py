"""Checksums that a store computed, and arithmetic on the CRCs of parts of files.

For CRCs that begin and end with all bits inverted, as S3's do, `crc(A+B) = crc(A)·x^(8·|B|) ^ crc(B)`, modulo the
polynomial. So the CRC of a file and that of its first bytes yield that of the rest, and the CRCs of parts yield that of
the parts end to end. No file is read for this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple


class Checksum(NamedTuple):
    """A checksum of a whole file; `algorithm` has S3's name."""

    algorithm: str
    value: int


ETAG = "ETag"
"""MD5 of an object that was put or copied with one request. An object encrypted with a KMS key or SSE-C has another
value, which is never the same twice."""

_MD5 = re.compile('"?([0-9a-f]{32})"?')
"""ETags of other objects end with the number of their parts."""


def checksum_of_etag(etag: str) -> Checksum | None:
    """Return the MD5 in an ETag; None if the ETag is something else."""
    match = _MD5.fullmatch(etag)
    return Checksum(ETAG, int(match[1], 16)) if match is not None else None


@dataclass(frozen=True)
class Crc:
    """A CRC; `polynomial` lacks its highest power, and has the lowest first (reflected)."""

    name: str
    bits: int
    polynomial: int

    def of(self, data: bytes) -> int:
        """Return the CRC of a few bytes; this is slow."""
        ones = (1 << self.bits) - 1
        crc = ones
        for byte in data:
            crc = self._table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return crc ^ ones

    def joined(self, first: int, second: int, length: int) -> int:
        """Return the CRC of two runs of bytes end to end; the second run has `length` bytes."""
        return _times(first, _power(self, 8 * length), self) ^ second

    def rest(self, whole: int, first: int, length: int) -> int:
        """Return the CRC of the last `length` bytes, from that of all bytes and that of the first ones."""
        return self.joined(first, whole, length)

    @cached_property
    def _table(self) -> list[int]:
        table = list(range(256))
        for _ in range(8):
            table = [(self.polynomial if crc & 1 else 0) ^ crc >> 1 for crc in table]
        return table


CRCS = {crc.name: crc for crc in (Crc("CRC64NVME", 64, 0x9A6C9329AC4BC9B5), Crc("CRC32C", 32, 0x82F63B78))}
"""CRCs that S3 computes of whole objects, however they were uploaded; the stronger first."""


def _times(a: int, b: int, crc: Crc) -> int:
    """Return the product of two polynomials, modulo that of the CRC; the highest bit is x^0."""
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
    """Return x^exponent, modulo the polynomial."""
    result, square = 1 << crc.bits - 1, 1 << crc.bits - 2
    while exponent:
        if exponent & 1:
            result = _times(result, square, crc)
        square = _times(square, square, crc)
        exponent >>= 1
    return result

"""Checksums that a store computed, and arithmetic on the CRCs of parts of files.

For CRCs that begin and end with all bits inverted, as S3's do, `crc(A+B) = crc(A)·x^(8·|B|) ^ crc(B)`, modulo the
polynomial. So the CRC of A+B follows from the CRCs of A and B, and the CRC of B from those of A+B and A. No file is
read for this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple


class Checksum(NamedTuple):
    """A checksum of a whole file. `algorithm` is the name that S3 uses, such as `CRC64NVME`."""

    algorithm: str
    value: int


ETAG = "ETag"
"""Name of the MD5 that is the ETag of an object put or copied with one request.

The ETag of an object encrypted with a KMS key or SSE-C is no MD5: two such objects with equal bytes have two ETags.
"""

_MD5_ETAG = re.compile('"?([0-9a-f]{32})"?')
"""Form of an ETag that is an MD5. The ETag of an object put in parts also ends with the number of parts."""


def checksum_of_etag(etag: str) -> Checksum | None:
    """Return the MD5 in an ETag; None if the ETag is no MD5."""
    match = _MD5_ETAG.fullmatch(etag)
    return Checksum(ETAG, int(match[1], 16)) if match is not None else None


def common_checksum(checksums: Iterable[Checksum], others: Iterable[Checksum]) -> Checksum | None:
    """Return the first of `checksums` whose algorithm `others` have, too; None without one, or if its value differs."""
    other_values = dict(others)
    shared_checksums = [checksum for checksum in checksums if checksum.algorithm in other_values]
    return (
        shared_checksums[0]
        if shared_checksums and shared_checksums[0].value == other_values[shared_checksums[0].algorithm]
        else None
    )


@dataclass(frozen=True)
class Crc:
    """A CRC of `bits` bits. `polynomial` is reflected (the highest bit is x^0) and leaves out the highest power."""

    name: str
    bits: int
    polynomial: int

    def compute(self, data: bytes) -> int:
        """Return the CRC of a few bytes. This is slow: each byte takes a step of Python."""
        all_ones = (1 << self.bits) - 1
        crc = all_ones
        for byte in data:
            crc = self._table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return crc ^ all_ones

    def combine(self, first: int, second: int, length: int) -> int:
        """Return the CRC of A+B from `first`, the CRC of A, and `second`, the CRC of B, which has `length` bytes."""
        return _multiply(first, _power_of_x(self, 8 * length), self) ^ second

    def of_suffix(self, whole: int, first: int, length: int) -> int:
        """Return the CRC of B, which has `length` bytes, from `whole`, the CRC of A+B, and `first`, the CRC of A."""
        return self.combine(first, whole, length)

    @cached_property
    def _table(self) -> list[int]:
        table = list(range(256))
        for _ in range(8):
            table = [(self.polynomial if crc & 1 else 0) ^ crc >> 1 for crc in table]
        return table


CRCS = {crc.name: crc for crc in (Crc("CRC64NVME", 64, 0x9A6C9329AC4BC9B5), Crc("CRC32C", 32, 0x82F63B78))}
"""CRCs that S3 can store for a whole object, even if it was uploaded in parts; the stronger first."""


def _multiply(a: int, b: int, crc: Crc) -> int:
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
def _power_of_x(crc: Crc, exponent: int) -> int:
    power, square = 1 << crc.bits - 1, 1 << crc.bits - 2
    while exponent:
        if exponent & 1:
            power = _multiply(power, square, crc)
        square = _multiply(square, square, crc)
        exponent >>= 1
    return power

"""CRC64NVME, the checksum that S3 computes of each object by default."""

from __future__ import annotations

from functools import lru_cache

_POLYNOMIAL = 0x9A6C9329AC4BC9B5
"""Polynomial of NVM Express without its highest power, lowest power first."""

_ONES = (1 << 64) - 1


def _crc64_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_CRC_OF_BYTE = [_crc64_of_byte(byte) for byte in range(256)]


@lru_cache(1024)
def crc64(data: bytes) -> int:
    crc = _ONES
    for byte in data:
        crc = _CRC_OF_BYTE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ _ONES

"""Flink's rules for keys, implemented in the simplest way, because the code of `rescale` is under test."""

from __future__ import annotations

_32_BITS = 0xFFFFFFFF


def key_groups_of_subtask(max_parallelism: int, parallelism: int, subtask: int) -> list[int]:
    """Return the key groups whose operator index is the subtask (`computeOperatorIndexForKeyGroup`)."""
    return [group for group in range(max_parallelism) if group * parallelism // max_parallelism == subtask]


def key_group_of_code(code: int, max_parallelism: int) -> int:
    """Return the key group of a key with that `hashCode` (`KeyGroupRangeAssignment.assignToKeyGroup`)."""
    return murmur(code) % max_parallelism


def hash_code_of_long(value: int) -> int:
    """Return the 32 bits of `Long.hashCode`."""
    return (value ^ value >> 32) & _32_BITS


def murmur(code: int) -> int:
    """Return the hash code as `MathUtils.murmurHash` computes it."""
    mixed = _rotated_left(code * 0xCC9E2D51 & _32_BITS, 15) * 0x1B873593 & _32_BITS
    mixed = (_rotated_left(mixed, 13) * 5 + 0xE6546B64 & _32_BITS) ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _32_BITS
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _32_BITS
    mixed ^= mixed >> 16
    if mixed < 1 << 31:
        return mixed
    return (1 << 32) - mixed if mixed != 1 << 31 else 0


def _rotated_left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _32_BITS

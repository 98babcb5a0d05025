"""Arithmetic of key groups and subtasks (`KeyGroupRangeAssignment`, `MathUtils.murmurHash`).

The key group of a key is the murmur hash of its `hashCode`, modulo the max parallelism. Each subtask owns a range of
consecutive key groups; the ranges differ in size by one at most.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import mmh3

UPPER_BOUND_MAX_PARALLELISM = 1 << 15


@dataclass(frozen=True, order=True, slots=True)
class KeyGroupRange:
    """Key groups `first` to `last`, both included; empty if `last < first`."""

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __contains__(self, key_group: int) -> bool:
        return self.first <= key_group <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if len(self) else "none"

    def intersection(self, other: KeyGroupRange) -> KeyGroupRange:
        """Return the key groups in both ranges."""
        return KeyGroupRange(max(self.first, other.first), min(self.last, other.last))


def prefix_size(max_parallelism: int) -> int:
    """Return the size in bytes of the number of the key group, which Flink writes in front of each key.

    `CompositeKeySerializationUtils.computeRequiredBytesInKeyGroupPrefix` defines this size.
    """
    return 1 if max_parallelism <= 128 else 2


def murmur(hash_code: int) -> int:
    """Return `MathUtils.murmurHash` of a 32-bit `hashCode`; it is never negative."""
    murmur_hash = mmh3.hash(struct.pack("<i", hash_code), 0, signed=True)
    return murmur_hash if murmur_hash >= 0 else -murmur_hash if murmur_hash != -(1 << 31) else 0


def key_group_of_hash(hash_code: int, max_parallelism: int) -> int:
    """Return the key group of a key with the `hashCode` `hash_code` (signed, 32 bits; `computeKeyGroupForKeyHash`)."""
    return murmur(hash_code) % max_parallelism


def key_group_range(max_parallelism: int, parallelism: int, subtask: int) -> KeyGroupRange:
    """Return the key groups that `subtask` owns (`computeKeyGroupRangeForOperatorIndex`)."""
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(first, last)


def subtask_of_key_group(max_parallelism: int, parallelism: int, key_group: int) -> int:
    """Return the subtask that owns `key_group` (`computeOperatorIndexForKeyGroup`)."""
    return key_group * parallelism // max_parallelism

"""Compiled loops for murmur3 (x86, 32 bits) and the key groups of many hash codes; import this module late.

`key_groups.murmur` hashes a single code without numba. Flink's `MathUtils.murmurHash` mixes one word, `MurmurHashUtils`
the bytes of a `BinaryRowData`, and Scala's `MurmurHash3.productHash` the hash codes of the fields of a case class.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Codes
from rescale.flink.compiled import Long, compiled

WORD = 0xFFFFFFFF


@compiled
def _rotate_left(word: Long, bits: int) -> Long:
    return (word << bits | word >> (32 - bits)) & WORD


@compiled
def mix(state: Long, word: Long) -> Long:
    """Return the state of a hash after mixing in `word`."""
    word = _rotate_left(word * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
    return _rotate_left(state ^ word, 13) * 5 + 0xE6546B64 & WORD


@compiled
def finalize_hash(state: Long, size: Long) -> Long:
    """Return the hash of `size` bytes (or fields) that were mixed into `state`."""
    state ^= size
    state = (state ^ state >> 16) * 0x85EBCA6B & WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & WORD
    return state ^ state >> 16


@compiled
def fill_key_groups(codes: Codes, max_parallelism: int, groups: Codes) -> None:
    """Fill `groups` with `KeyGroupRangeAssignment.computeKeyGroupForKeyHash` of each code."""
    for i in range(len(codes)):
        code = finalize_hash(mix(np.int64(0), np.int64(codes[i]) & WORD), 4)
        if code > 0x7FFFFFFF:
            code = (1 << 32) - code & 0x7FFFFFFF
        groups[i] = code % max_parallelism

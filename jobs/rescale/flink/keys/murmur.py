"""Compiled loops for murmur3 (x86, 32 bits), and for the key groups of many hash codes.

Import this module inside functions (see `compiled`). `key_groups.murmur` hashes a single code without numba.

Flink's `MathUtils.murmurHash` mixes one word, `MurmurHashUtils` mixes the bytes of a `BinaryRowData`, and Scala's
`MurmurHash3.productHash` mixes the hash codes of the fields of a case class.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import HashCodes
from rescale.flink.compiled import Long, compiled

WORD_MASK = 0xFFFFFFFF


@compiled
def _rotate_left(word: Long, bits: int) -> Long:
    return (word << bits | word >> (32 - bits)) & WORD_MASK


@compiled
def mix(hash_state: Long, word: Long) -> Long:
    """Return the state of a hash after mixing in `word`."""
    word = _rotate_left(word * 0xCC9E2D51 & WORD_MASK, 15) * 0x1B873593 & WORD_MASK
    return _rotate_left(hash_state ^ word, 13) * 5 + 0xE6546B64 & WORD_MASK


@compiled
def finalize_hash(hash_state: Long, size: Long) -> Long:
    """Return the hash of `size` bytes (or fields) that were mixed into `hash_state`."""
    hash_state ^= size
    hash_state = (hash_state ^ hash_state >> 16) * 0x85EBCA6B & WORD_MASK
    hash_state = (hash_state ^ hash_state >> 13) * 0xC2B2AE35 & WORD_MASK
    return hash_state ^ hash_state >> 16


@compiled
def fill_key_groups(hash_codes: HashCodes, max_parallelism: int, key_groups: HashCodes) -> None:
    """Fill `key_groups` with `KeyGroupRangeAssignment.computeKeyGroupForKeyHash` of each code."""
    for i in range(len(hash_codes)):
        murmur_hash = finalize_hash(mix(np.int64(0), np.int64(hash_codes[i]) & WORD_MASK), 4)
        if murmur_hash > 0x7FFFFFFF:
            murmur_hash = (1 << 32) - murmur_hash & 0x7FFFFFFF
        key_groups[i] = murmur_hash % max_parallelism

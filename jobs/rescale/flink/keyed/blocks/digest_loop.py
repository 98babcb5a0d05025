"""Compiled loop that digests records; needs a little-endian machine.

Import this module inside functions (see `compiled`).
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Flags, Longs, Words
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_FIVE, _ADD1, _ADD2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)
"""Constants of `MurmurHash3_x64_128`."""
_WORD_BITS, _HALF_BITS = np.uint64(64), np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@compiled
def _rotate_left(word: Long, bits: int) -> Long:
    return word << np.uint64(bits) | word >> (_WORD_BITS - np.uint64(bits))


@compiled
def _final_mix(word: Long) -> Long:
    shift = np.uint64(33)
    word = (word ^ word >> shift) * _M1
    word = (word ^ word >> shift) * _M2
    return word ^ word >> shift


@compiled
def _murmur(message: Words, size: int) -> tuple[Long, Long]:
    """Return `MurmurHash3_x64_128` of the first `size` bytes; zero bytes must follow up to a multiple of 16."""
    first, second = np.uint64(0), np.uint64(0)
    for i in range(0, size // 16 * 2, 2):
        first ^= _rotate_left(message[i] * _C1, 31) * _C2
        first = (_rotate_left(first, 27) + second) * _FIVE + _ADD1
        second ^= _rotate_left(message[i + 1] * _C2, 33) * _C1
        second = (_rotate_left(second, 31) + first) * _FIVE + _ADD2
    if size % 16:
        last_block = size // 16 * 2
        second ^= _rotate_left(message[last_block + 1] * _C2, 33) * _C1
        first ^= _rotate_left(message[last_block] * _C1, 31) * _C2
    first ^= np.uint64(size)
    second ^= np.uint64(size)
    first += second
    second += first
    first, second = _final_mix(first), _final_mix(second)
    first += second
    return first, second + first


@compiled
def _add_to_sum(sums: Words, at: int, low: Long, high: Long) -> None:
    """Add a number of 128 bits to the sum whose low half is `sums[at]`."""
    old_low = sums[at]
    sums[at] += low
    sums[at + 1] += high + (np.uint64(1) if sums[at] < old_low else np.uint64(0))


@compiled
def digest_records(
    data: Bytes,
    key_starts: Longs,
    key_ends: Longs,
    record_ends: Longs,
    state_ids: Longs,
    key_groups: Longs,
    has_nulls_by_state: Flags,
    message_words: Words,
    message: Bytes,
    counts: Longs,
    sums: Words,
) -> None:
    """Add each record to the count and to the two sums of its state (`record_digest` defines them).

    `sums` has four words for each state: the first sum, low half first, then the second sum. `message` and
    `message_words` are the same memory, with room for the largest record. `has_nulls_by_state` is true for states whose
    values begin with a null flag; if such a value is null, only its flag is digested.
    """
    for i in range(len(key_starts)):
        key_size = key_ends[i] - key_starts[i]
        begin = key_ends[i] + LENGTH_SIZE
        end = record_ends[i]
        if has_nulls_by_state[state_ids[i]] and end > begin and data[begin] == 1:
            end = begin + 1
        size = LENGTH_SIZE + key_size + end - begin
        message[0], message[1], message[2], message[3] = (
            key_size >> 24 & 0xFF,
            key_size >> 16 & 0xFF,
            key_size >> 8 & 0xFF,
            key_size & 0xFF,
        )
        copy_bytes(
            data, begin, end, message, copy_bytes(data, key_starts[i], key_ends[i], message, np.int64(LENGTH_SIZE))
        )
        message[size : (size + 15) // 16 * 16] = 0
        low, high = _murmur(message_words, size)
        counts[state_ids[i]] += 1
        at = 4 * state_ids[i]
        _add_to_sum(sums, at, low, high)
        # Add the digest times `factor`, mod 2^128. `factor` has few bits, so products of 32-bit halves do not overflow.
        factor = np.uint64(key_groups[i] + 1)
        lower, upper = (low & _LOW_HALF) * factor, (low >> _HALF_BITS) * factor
        middle = upper + (lower >> _HALF_BITS)
        _add_to_sum(sums, at + 2, middle << _HALF_BITS | lower & _LOW_HALF, high * factor + (middle >> _HALF_BITS))

"""Compiled loops that sort keys by their bytes. Import this module inside functions (see `compiled`).

The loops sort keys by big-endian words of eight bytes, then keys with equal words by their next words.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs, Words
from rescale.flink.compiled import Long, compiled


@compiled
def word_of_key(data: Bytes, begin: Long, end: Long) -> np.uint64:
    """Return the first eight bytes of the key `data[begin:end]` as a number; a shorter key is filled up with zeros."""
    word = np.uint64(0)
    if end - begin >= 8:
        for i in range(8):  # the compiler makes this loop a single load
            word = word << np.uint64(8) | np.uint64(data[np.uint64(begin + i)])
        return word
    for i in range(8):
        word <<= np.uint64(8)
        if begin + i < end:
            word |= np.uint64(data[np.uint64(begin + i)])
    return word


@compiled
def sort_keys(data: Bytes, begins: Longs, ends: Longs, borders: Longs, order: Longs, key_words: Words) -> None:
    """Fill `order` with the indices of the keys `data[begins[i]:ends[i]]`, sorted within each range between borders.

    `borders` are indices of keys: the first is 0, and the last the number of keys. Ranges keep their places.
    `key_words` is scratch space for a word of each key.
    """
    for i in range(len(order)):
        order[i] = i
    waiting_runs = [(borders[i], borders[i + 1], np.int64(0)) for i in range(len(borders) - 1)]
    while len(waiting_runs):
        begin, run_end, depth = waiting_runs.pop()
        depth += _fill_words(data, begins, ends, order, key_words, begin, run_end, depth)
        permutation = np.argsort(key_words[begin:run_end])
        order[begin:run_end] = order[begin:run_end][permutation]
        key_words[begin:run_end] = key_words[begin:run_end][permutation]
        while begin < run_end:
            end = begin + 1
            while end < run_end and key_words[end] == key_words[begin]:
                end += 1
            if end - begin > 1:
                first_longer = _sort_by_length(begins, ends, order, begin, end, depth + 8)
                if end - first_longer > 1:
                    waiting_runs.append((first_longer, end, depth + 8))
            begin = end


@compiled
def _fill_words(
    data: Bytes, begins: Longs, ends: Longs, order: Longs, key_words: Words, begin: Long, end: Long, depth: Long
) -> Long:
    """Fill `key_words[begin:end]` with a word of each key `order[begin:end]`, and return the number of skipped bytes.

    A word begins after the first `depth` bytes of its key, and after the bytes (at most seven) that all these keys
    share from there on. For example, keys of a key group share its number, and keys that are small integers share
    leading zeros. Without shared bytes, the first word usually decides the order.
    """
    shared_size = np.int64(0)
    while True:
        differing_bits = np.uint64(0)
        for i in range(begin, end):
            key_words[i] = word_of_key(data, begins[order[i]] + depth + shared_size, ends[order[i]])
            differing_bits |= key_words[i] ^ key_words[begin]
        if shared_size or not differing_bits or differing_bits >> np.uint64(56):
            return shared_size
        while not differing_bits >> np.uint64(56):
            differing_bits <<= np.uint64(8)
            shared_size += 1


@compiled
def _sort_by_length(begins: Longs, ends: Longs, order: Longs, begin: Long, end: Long, size: Long) -> Long:
    """Move keys of at most `size` bytes to the front, sorted by length; return where the longer keys begin.

    The first `size` bytes of all these keys are equal, so a shorter key precedes a longer one.
    """
    lengths = np.empty(end - begin, np.int64)
    first_longer = end
    for i in range(begin, end):
        lengths[i - begin] = min(ends[order[i]] - begins[order[i]], size + 1)
    permutation = np.argsort(lengths)
    order[begin:end] = order[begin:end][permutation]
    while first_longer > begin and ends[order[first_longer - 1]] - begins[order[first_longer - 1]] > size:
        first_longer -= 1
    return first_longer

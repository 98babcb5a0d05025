"""The loops that find the order of keys as bytes; compiled, so their module is loaded late.

A key is looked at in words of eight bytes, the first byte being the highest, so that comparing words is comparing
bytes. Keys whose words are equal are put in order by the words that follow.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs, Words
from rescale.flink.compiled import Long, compiled


@compiled
def word_of_key(data: Bytes, begin: Long, end: Long) -> np.uint64:
    """Of a key from `begin` on; bytes behind its end count as zeros."""
    word = np.uint64(0)
    for i in range(8):
        word <<= np.uint64(8)
        if begin + i < end:
            word |= np.uint64(data[np.uint64(begin + i)])
    return word


@compiled
def sort_keys(data: Bytes, begins: Longs, ends: Longs, order: Longs, words: Words) -> None:
    """Fills `order` with the numbers of the keys `data[begins[i]:ends[i]]` in the order of their bytes.

    `words` is scratch of the same length.
    """
    for i in range(len(order)):
        order[i] = i
    waiting = [(np.int64(0), np.int64(len(order)), np.int64(0))]
    while len(waiting):
        first, last, depth = waiting.pop()
        for i in range(first, last):
            words[i] = word_of_key(data, begins[order[i]] + depth, ends[order[i]])
        chosen = np.argsort(words[first:last])
        order[first:last] = order[first:last][chosen]
        words[first:last] = words[first:last][chosen]
        begin = first
        while begin < last:
            end = begin + 1
            while end < last and words[end] == words[begin]:
                end += 1
            if end - begin > 1:
                longer = _by_length(begins, ends, order, begin, end, depth + 8)
                if end - longer > 1:
                    waiting.append((longer, end, depth + 8))
            begin = end


@compiled
def _by_length(begins: Longs, ends: Longs, order: Longs, first: Long, last: Long, size: Long) -> Long:
    """Puts the keys that end within `size` bytes before the others, by length; returns where the others begin.

    Of keys with the same bytes so far, the shorter ones come first.
    """
    lengths = np.empty(last - first, np.int64)
    longer = last
    for i in range(first, last):
        lengths[i - first] = min(ends[order[i]] - begins[order[i]], size + 1)
    chosen = np.argsort(lengths)
    order[first:last] = order[first:last][chosen]
    while longer > first and ends[order[longer - 1]] - begins[order[longer - 1]] > size:
        longer -= 1
    return longer

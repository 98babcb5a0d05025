"""Checksums of runs of bytes: 128-bit XXH3, added up mod 2^128 so that they do not depend on any order.

Of those that fit it is the fastest, and the one that lets other threads run meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import numpy as np
import xxhash

from rescale.execution.sources.chunks import Chunk, runs

MODULUS = 1 << 128


def digest(chunks: Iterable[Chunk], seed: int = 0) -> int:
    hasher = xxhash.xxh3_128(seed=seed)
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.intdigest()


def digest_pair(chunks: Iterable[Chunk], others: Iterable[Chunk]) -> tuple[int, int]:
    """The digests of two runs of bytes; as long as their chunks are the same, one is computed for both."""
    hasher = xxhash.xxh3_128()
    other_hasher = hasher
    for chunk, other in zip_longest(chunks, others, fillvalue=b""):
        if other_hasher is hasher and not _same(chunk, other):
            other_hasher = hasher.copy()
        hasher.update(chunk)
        if other_hasher is not hasher:
            other_hasher.update(other)
    return hasher.intdigest(), other_hasher.intdigest()


def run_digests(chunks: Iterator[bytes], lengths: Sequence[int]) -> Iterator[int]:
    """The digest of each of the consecutive runs of `lengths` bytes that `chunks` hold end to end."""
    return map(digest, runs(chunks, lengths))


def _same(chunk: Chunk, other: Chunk) -> bool:
    """As `==`, which goes through memory views byte by byte."""
    return np.array_equal(np.frombuffer(chunk, np.uint8), np.frombuffer(other, np.uint8))

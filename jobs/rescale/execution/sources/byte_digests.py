"""Checksums of runs of bytes: 128-bit XXH3, added up mod 2^128 so that they do not depend on any order.

Of those that fit it is the fastest, and the one that lets other threads run meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import xxhash

from rescale.execution.sources.chunks import Chunk, runs

MODULUS = 1 << 128


def digest(chunks: Iterable[Chunk], seed: int = 0) -> int:
    hasher = xxhash.xxh3_128(seed=seed)
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.intdigest()


def digest_pair(chunks: Iterable[Chunk], others: Iterable[Chunk]) -> tuple[int, int]:
    """The digests of two runs of bytes. Both are computed: that takes less time than to see that they are the same."""
    return digest(chunks), digest(others)


def run_digests(chunks: Iterator[bytes], lengths: Sequence[int]) -> Iterator[int]:
    """The digest of each of the consecutive runs of `lengths` bytes that `chunks` hold end to end."""
    return map(digest, runs(chunks, lengths))

"""Checksums of runs of bytes: 128-bit XXH3, added mod 2^128 so that sums do not depend on the order.

XXH3 is the fastest suitable hash, and its library releases Python's GIL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import xxhash

from rescale.execution.sources.chunks import Chunk, runs

MODULUS = 1 << 128


def digest(chunks: Iterable[Chunk], seed: int = 0) -> int:
    """Return the digest of the bytes in all chunks."""
    hasher = xxhash.xxh3_128(seed=seed)
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.intdigest()


def digest_pair(chunks: Iterable[Chunk], other_chunks: Iterable[Chunk]) -> tuple[int, int]:
    """Return the digests of two runs of bytes: hashing both is faster than comparing their bytes in Python."""
    return digest(chunks), digest(other_chunks)


def run_digests(chunks: Iterator[bytes], lengths: Sequence[int]) -> Iterator[int]:
    """Yield the digest of each of the consecutive runs of `lengths` bytes in `chunks`."""
    return map(digest, runs(chunks, lengths))

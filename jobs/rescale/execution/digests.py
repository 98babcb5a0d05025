"""Checksums of runs of bytes: 128-bit murmur3, added up mod 2^128 so that they do not depend on any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import mmh3

from rescale.execution.chunks import Chunk, runs
from rescale.planning.locate import Extent
from rescale.storage.store import Pin, open_store

MODULUS = 1 << 128
_CHUNK = 4 * 1024 * 1024


def digest(chunks: Iterable[Chunk], seed: int = 0) -> int:
    hasher = mmh3.mmh3_x64_128(seed=seed)
    for chunk in chunks:
        hasher.update(chunk)
    return int.from_bytes(hasher.digest(), "little")


def run_digests(chunks: Iterator[bytes], lengths: Sequence[int]) -> Iterator[int]:
    """The digest of each of the consecutive runs of `lengths` bytes that `chunks` hold end to end."""
    return map(digest, runs(chunks, lengths))


def read_chunks(files: Sequence[tuple[str, Pin | None]], extent: Extent) -> Iterator[bytes]:
    """The bytes of an extent of `files`, in chunks of bounded size."""
    uri, pin = files[extent.file]
    store = open_store(uri)
    for offset in range(0, extent.length, _CHUNK):
        yield store.read(uri, extent.start + offset, min(_CHUNK, extent.length - offset), pin)

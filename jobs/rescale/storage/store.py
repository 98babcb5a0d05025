"""The entry to storage: the store of a URI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache

from rescale.storage.contract import Entry, Pin, Store
from rescale.storage.files.local_store import LocalStore
from rescale.storage.locations import is_s3

__all__ = ["Entry", "Pin", "Store", "open_store", "read_in_chunks", "stats_of"]


def open_store(uri: str) -> Store:
    """Return the store that holds `uri`."""
    return _s3() if is_s3(uri) else _local()


def stats_of(uris: Sequence[str]) -> dict[str, Pin | None]:
    """Return the versions of files in any kind of store, by URI; None for a file that does not exist."""
    pins: dict[str, Pin | None] = {}
    for of_s3 in (True, False):
        if own := [uri for uri in uris if is_s3(uri) is of_s3]:
            pins |= zip(own, open_store(own[0]).stats(own), strict=True)
    return pins


def read_in_chunks(uri: str, start: int, length: int, pin: Pin | None, at_once: int | None = None) -> Iterator[bytes]:
    """Yield `length` bytes of a file from `start` on, in pieces of the best size for its store.

    `at_once` is the number of bytes that the caller uses together: pieces have that size, or a much larger one. Raises
    as `Store.read`.
    """
    store = open_store(uri)
    step = store.read_size(length, at_once)
    for offset in range(0, length, step):
        yield store.read(uri, start + offset, min(step, length - offset), pin)


@cache
def _local() -> Store:
    return LocalStore()


@cache
def _s3() -> Store:
    from rescale.storage.s3.s3_store import S3Store  # imports boto3, which is slow

    return S3Store()


# Two processes on one connection read each other's answers.
os.register_at_fork(after_in_child=_s3.cache_clear)

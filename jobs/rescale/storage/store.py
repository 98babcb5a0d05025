"""The store of a place: what everything that reads or writes begins with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache

from rescale.storage.contract import Entry, Pin, Store
from rescale.storage.files.local_store import LocalStore
from rescale.storage.locations import is_s3

__all__ = ["Entry", "Pin", "Store", "open_store", "read_in_chunks", "stats_of"]


def open_store(uri: str) -> Store:
    """The store that holds `uri`."""
    return _s3() if is_s3(uri) else _local()


def stats_of(uris: Sequence[str]) -> dict[str, Pin | None]:
    """`Store.stats` of files that need not all lie in the same kind of store, by URI."""
    found: dict[str, Pin | None] = {}
    for of_s3 in (True, False):
        if own := [uri for uri in uris if is_s3(uri) is of_s3]:
            found |= zip(own, open_store(own[0]).stats(own), strict=True)
    return found


def read_in_chunks(uri: str, start: int, length: int, pin: Pin | None, at_once: int | None = None) -> Iterator[bytes]:
    """`length` bytes of a file from `start` on, in pieces of the size that its store likes; errors as `Store.read`.

    Whoever uses `at_once` of them together gets such pieces, or much longer ones of a long run.
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
    from rescale.storage.s3.s3_store import S3Store  # brings boto3, which only those pay for who use S3

    return S3Store()


# Two processes on one connection read each other's answers.
os.register_at_fork(after_in_child=_s3.cache_clear)

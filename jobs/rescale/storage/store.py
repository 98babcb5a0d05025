"""Opens the store for a URI. Other packages read and write files through this module."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache

from rescale.storage.contract import Entry, Pin, Store
from rescale.storage.files.local_store import LocalStore
from rescale.storage.locations import is_s3
from rescale.storage.sides import StoreSide, has_two_stores, side_of

__all__ = ["Entry", "Pin", "Store", "existing", "exists", "forget_stores", "open_store", "read_in_chunks", "stats_of"]


def open_store(uri: str) -> Store:
    """Return the store that holds `uri`: one for each kind of storage, or two for S3 (`sides`)."""
    if not is_s3(uri):
        return _local()
    return _s3() if side_of(uri) is StoreSide.TARGET else _s3_of_source()


def exists(uri: str) -> bool:
    return open_store(uri).stat(uri) is not None


def stats_of(uris: Sequence[str]) -> dict[str, Pin | None]:
    """Return the versions of files in any kind of store, by URI; None for a file that does not exist."""
    uris_by_store: dict[Store, list[str]] = {}
    for uri in uris:
        uris_by_store.setdefault(open_store(uri), []).append(uri)
    pin_by_uri: dict[str, Pin | None] = {}
    for store, own_uris in uris_by_store.items():
        pin_by_uri |= zip(own_uris, store.stats(own_uris), strict=True)
    return pin_by_uri


def existing(uris: Sequence[str]) -> list[str]:
    """Return the files that exist."""
    return [uri for uri, pin in stats_of(uris).items() if pin is not None]


def read_in_chunks(
    uri: str, start: int, length: int, pin: Pin | None, bytes_at_once: int | None = None
) -> Iterator[bytes]:
    """Yield `length` bytes of a file from offset `start`, in chunks of the best size for its store.

    `bytes_at_once` is the number of bytes that the caller processes together: chunks have that size, or a much larger
    one. Raises the same errors as `Store.read`.
    """
    store = open_store(uri)
    chunk_size = store.chunk_size(length, bytes_at_once)
    for offset in range(0, length, chunk_size):
        yield store.read(uri, start + offset, min(chunk_size, length - offset), pin)


@cache
def _local() -> Store:
    return LocalStore()


@cache
def _s3() -> Store:
    from rescale.storage.s3.s3_store import S3Store  # imports boto3, which is slow

    return S3Store()


@cache
def _s3_of_source() -> Store:
    if not has_two_stores():
        return _s3()
    from rescale.storage.s3.s3_store import S3Store

    return S3Store(side=StoreSide.SOURCE)


_CACHE_CLEARERS = (_s3.cache_clear, _s3_of_source.cache_clear)


def forget_stores() -> None:
    """Forget the opened S3 stores. Call this after a change of their variables, so that the new values apply."""
    for forget in _CACHE_CLEARERS:
        forget()


# If a forked process used its parent's connections, each would read answers meant for the other.
os.register_at_fork(after_in_child=forget_stores)

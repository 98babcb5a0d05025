"""Copy files that Flink may delete: inside the store if possible, else through this process."""

from __future__ import annotations

from pathlib import Path
from threading import BoundedSemaphore

from rescale.storage.contract import CopyRefused, Span
from rescale.storage.files import mounts
from rescale.storage.locations import is_s3
from rescale.storage.sides import is_one_store
from rescale.storage.store import open_store, read_in_chunks

_LARGEST_COPY_BYTES = 1 << 30
"""Largest number of bytes that one request copies (CopyObject).

S3 would copy 5 GiB. But some stores send no byte until the copy is made, and a request fails if the store is silent for
`s3_client.READ_SECONDS`.
"""

_PART_SIZE = 256 << 20
"""Size of a part in bytes, for files that are copied in parts."""

_PARTS_IN_MEMORY = BoundedSemaphore(4)
"""Limit on the number of parts, and of files no larger than a part, in memory at once: callers copy many files."""


def keep(uri: str, source: Span, staging: str) -> None:
    """Copy the whole file `source` to `uri`, or link it; `staging` is the directory for unfinished files.

    Raises `SnapshotError` if the pinned version is gone.
    """
    store = open_store(uri)
    is_copied_by_store = is_one_store(uri, source.uri)
    if takes_one_request(uri, source):
        try:
            store.keep(uri, source)
            return
        except CopyRefused:
            is_copied_by_store = False
    if source.length <= _PART_SIZE:
        with _PARTS_IN_MEMORY:
            store.put(uri, open_store(source.uri).read(source.uri, 0, source.length, source.pin))
        return
    upload_id = store.begin_parts(uri, staging)
    receipts = []
    for number, start in enumerate(range(0, source.length, _PART_SIZE), 1):
        part = source._replace(start=start, length=min(_PART_SIZE, source.length - start))
        if is_copied_by_store:
            try:
                receipts.append(store.copy_part(uri, upload_id, number, start, part))
                continue
            except CopyRefused:
                is_copied_by_store = False
        with _PARTS_IN_MEMORY:
            data = b"".join(read_in_chunks(part.uri, part.start, part.length, part.pin))
            receipts.append(store.put_part(uri, upload_id, number, start, data))
    store.complete_parts(uri, upload_id, receipts, source.length)


def takes_one_request(uri: str, source: Span) -> bool:
    """Tell whether one request can link or copy `source` to `uri` inside the store, which may still refuse it."""
    return (
        source.is_whole and is_one_store(uri, source.uri) and (not is_s3(uri) or source.length <= _LARGEST_COPY_BYTES)
    )


def is_one_file(uri: str, other: str) -> bool:
    """Tell whether both URIs are hard links to one local file, as `keep` creates where the file system can."""
    if is_s3(uri) or is_s3(other):
        return False
    identity = mounts.identity_of(Path(uri))
    return identity is not None and identity == mounts.identity_of(Path(other))

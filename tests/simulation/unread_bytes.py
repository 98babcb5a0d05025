"""The bytes of a result that were proven by the store's checksums, and not read.

The certificate has the number of these bytes for each operator; this module derives where they are. In a RocksDB
directory, they are the SST files with the checksum of a file of the source. In files of key groups, they are all bytes
behind the header. Validation must notice rot in all other bytes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from rescale.flink.metadata.checkpoint_metadata import OperatorState
from rescale.flink.metadata.handles import IncrementalHandle, RelativeFileStream
from simulation.contents import Contents
from simulation.rows import WrongError
from simulation.stored import StoredObject


class _Part(NamedTuple):
    """Extents by the names of files. A certificate proves either all of them by checksums, or none."""

    extents: Mapping[str, range]

    @property
    def size(self) -> int:
        return sum(map(len, self.extents.values()))


def unread_extents(
    certificate: bytes,
    result: Mapping[str, StoredObject],
    source_objects: Collection[StoredObject],
    *,
    has_checksums: bool,
) -> dict[str, range]:
    """Return extents by the names of files; raise `WrongError` if the certificate is unreadable or impossible.

    With `has_checksums`, the store has checksums of all objects, else only ETags of objects put by a single request.
    """
    try:
        checksums_by_operator_id = {
            operator["operator_id"]: operator["checksums"] for operator in json.loads(certificate)["operators"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise WrongError(f"the certificate cannot be read: {error}") from None
    contents = Contents({name: stored.data for name, stored in result.items()})
    source_checksums = {_checksum(source, has_checksums=has_checksums) for source in source_objects}
    extents: dict[str, range] = {}
    for operator in contents.metadata.operators:
        if (checksums := checksums_by_operator_id.get(operator.operator_id)) is not None:
            parts = [*_directory_parts(contents, operator, result, source_checksums, has_checksums=has_checksums)]
            parts += _stream_parts(contents, operator) if has_checksums else []
            extents |= _parts_of_size(checksums["bytes"], parts, operator)
    return extents


def _parts_of_size(size: int, parts: list[_Part], operator: OperatorState) -> dict[str, range]:
    """Return the extents of all combinations of parts with `size` bytes, any of which the certificate may mean."""
    extents: dict[str, range] | None = None
    for choices in product((False, True), repeat=len(parts)):
        chosen_parts = [part for part, is_chosen in zip(parts, choices, strict=True) if is_chosen]
        if sum(part.size for part in chosen_parts) == size:
            extents = extents or {}
            for part in chosen_parts:
                extents |= part.extents
    if extents is None:
        sizes = [part.size for part in parts]
        raise WrongError(f"{size} bytes of {operator.operator_id} proven by checksums: no sum of the sizes {sizes}")
    return extents


def _directory_parts(
    contents: Contents,
    operator: OperatorState,
    result: Mapping[str, StoredObject],
    source_checksums: Collection[object],
    *,
    has_checksums: bool,
) -> Iterator[_Part]:
    for _, handle in contents.handles(operator, "managed_keyed"):
        if isinstance(handle, IncrementalHandle):
            files = [file for file in (*handle.shared, *handle.private) if file.name.endswith(".sst")]
            paths = [file.stream.path for file in files if isinstance(file.stream, RelativeFileStream)]
            existing_paths = [path for path in paths if path in result]
            copied_paths = [
                path
                for path in existing_paths
                if _checksum(result[path], has_checksums=has_checksums) in source_checksums
            ]
            yield _Part({path: range(len(result[path].data)) for path in copied_paths})


def _stream_parts(contents: Contents, operator: OperatorState) -> Iterator[_Part]:
    """Yield a part for each field whose streams are all files: the key groups of all subtasks, without the headers."""
    for field in ("managed_keyed", "raw_keyed"):
        handles: list[Any] = [handle for _, handle in contents.handles(operator, field)]
        if any(
            isinstance(handle, IncrementalHandle) or not isinstance(handle.stream, RelativeFileStream)
            for handle in handles
        ):
            continue
        least_offset = 0 if field == "raw_keyed" else 1  # a header is at 0, except in a raw stream
        begins = {
            handle.stream: min((o for o in handle.offsets if o >= least_offset), default=handle.stream.size)
            for handle in handles
        }
        yield _Part({stream.path: range(begin, stream.size) for stream, begin in begins.items()})


def _checksum(stored: StoredObject, *, has_checksums: bool) -> object:
    """Return a value that is equal for objects with equal checksums.

    With `has_checksums`, it has the bytes that were put. Otherwise, it is the ETag, or the object itself after a
    multipart upload, because the ETag is no checksum then.
    """
    if has_checksums:
        return stored.as_put
    return stored.etag if "-" not in stored.etag else stored

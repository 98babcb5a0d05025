"""The bytes of a result that were proven by the store's checksums, and not read.

The certificate has the number of these bytes for each operator; this module derives where they are. In a RocksDB
directory, they are the SST files whose checksum is that of a file of the source. For key groups, they are all files
without their headers. Validation must notice rot in all other bytes.
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
    """Part of a result that is proven by checksums as a whole, or not at all: extents by names of files."""

    extents: Mapping[str, range]

    @property
    def size(self) -> int:
        return sum(map(len, self.extents.values()))


def unread_extents(
    certificate: bytes, result: Mapping[str, StoredObject], sources: Collection[StoredObject], *, has_sums: bool
) -> dict[str, range]:
    """Return extents by the names of files; raise `WrongError` if the certificate is unreadable or impossible.

    With `has_sums` the store has checksums of all objects; otherwise only ETags of objects that one request has put.
    """
    try:
        said = {operator["operator_id"]: operator["checksums"] for operator in json.loads(certificate)["operators"]}
    except (ValueError, KeyError, TypeError) as error:
        raise WrongError(f"a certificate that cannot be read: {error}") from None
    contents = Contents({name: stored.data for name, stored in result.items()})
    known = {_sum(source, has_sums=has_sums) for source in sources}
    left: dict[str, range] = {}
    for operator in contents.metadata.operators:
        if (checksums := said.get(operator.operator_id)) is not None:
            parts = [*_directories(contents, operator, result, known, has_sums=has_sums)]
            parts += _streams(contents, operator) if has_sums else []
            left |= _parts_of_size(checksums["bytes"], parts, operator)
    return left


def _parts_of_size(size: int, parts: list[_Part], operator: OperatorState) -> dict[str, range]:
    """Return all extents that a certificate with `size` bytes by checksums may mean."""
    meant: dict[str, range] | None = None
    for chosen in product((False, True), repeat=len(parts)):
        some = [part for part, is_chosen in zip(parts, chosen, strict=True) if is_chosen]
        if sum(part.size for part in some) == size:
            meant = meant or {}
            for part in some:
                meant |= part.extents
    if meant is None:
        there = [part.size for part in parts]
        raise WrongError(f"{size} bytes of {operator.operator_id} by checksums, where there may be some of {there}")
    return meant


def _directories(
    contents: Contents,
    operator: OperatorState,
    result: Mapping[str, StoredObject],
    known: Collection[object],
    *,
    has_sums: bool,
) -> Iterator[_Part]:
    for _, handle in contents.handles(operator, "managed_keyed"):
        if isinstance(handle, IncrementalHandle):
            files = [file for file in (*handle.shared, *handle.private) if file.name.endswith(".sst")]
            paths = [file.stream.path for file in files if isinstance(file.stream, RelativeFileStream)]
            there = [path for path in paths if path in result]
            copied = [path for path in there if _sum(result[path], has_sums=has_sums) in known]
            yield _Part({path: range(len(result[path].data)) for path in copied})


def _streams(contents: Contents, operator: OperatorState) -> Iterator[_Part]:
    """Yield the parts with key groups, if each lies in a file of its own, behind the header."""
    for field in ("managed_keyed", "raw_keyed"):
        handles: list[Any] = [handle for _, handle in contents.handles(operator, field)]
        if any(
            isinstance(handle, IncrementalHandle) or not isinstance(handle.stream, RelativeFileStream)
            for handle in handles
        ):
            continue
        least = 0 if field == "raw_keyed" else 1  # a header is at 0, except in a raw stream
        begins = {
            handle.stream: min((o for o in handle.offsets if o >= least), default=handle.stream.size)
            for handle in handles
        }
        yield _Part({stream.path: range(begin, stream.size) for stream, begin in begins.items()})


def _sum(stored: StoredObject, *, has_sums: bool) -> object:
    """Return the store's checksum, here the bytes themselves or an ETag; the ETag of a multipart upload is none."""
    if has_sums:
        return stored.as_put
    return stored.etag if "-" not in stored.etag else stored

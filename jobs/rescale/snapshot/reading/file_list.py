"""List the files that a `_metadata` names, reading only the `_metadata` itself."""

from __future__ import annotations

from typing import NamedTuple

from rescale.flink.metadata.reader import read_metadata
from rescale.snapshot.locate import Locator
from rescale.snapshot.reading.handle_streams import streams_of
from rescale.snapshot.reading.opening import METADATA_LIMIT_BYTES
from rescale.storage.locations import parent
from rescale.storage.store import Pin, open_store


class FileList(NamedTuple):
    """The version of a `_metadata`, and the URIs of the other files that it names."""

    metadata_pin: Pin
    uris: tuple[str, ...]


def list_files(metadata_uri: str, allow_prefixes: tuple[str, ...], read_from: str | None = None) -> FileList:
    """List the files of the snapshot at `metadata_uri`, reading only `_metadata`, or its copy `read_from`.

    Raises `SnapshotError` if the `_metadata` is missing or damaged, or names files outside the allowed directories.
    """
    uri = read_from or metadata_uri
    metadata_bytes, pin = open_store(uri).read_all(uri, METADATA_LIMIT_BYTES)
    locator = Locator(metadata_uri, parent(metadata_uri), allow_prefixes)
    for operator in read_metadata(metadata_bytes, uri).operators:
        for stream in streams_of(operator):
            locator.extent(stream)
    return FileList(pin, tuple(locator.files[1:]))

"""The files of a RocksDB directory as its reader wants them: the name, the place and the version of each file."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.stored_files import StoredFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles


def listed_files(contents: SnapshotFiles, named: Iterable[tuple[str, Extent]]) -> list[StoredFile]:
    """Return the files at these extents; content that lies in `_metadata` is read."""
    return [_stored(contents, name, extent) for name, extent in named]


def _stored(contents: SnapshotFiles, name: str, extent: Extent) -> StoredFile:
    uri, pin = contents.versions[extent.file]
    if extent.file == 0:
        return StoredFile(name, uri, extent.length, data=contents.read(extent))
    return StoredFile(name, uri, extent.length, extent.start, pin)

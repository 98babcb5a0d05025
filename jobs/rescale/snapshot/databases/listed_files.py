"""The files of a RocksDB directory as RocksDB's reader wants them: by name, with the place and the version of each."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.stored_files import StoredFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles


def listed_files(contents: SnapshotFiles, named: Iterable[tuple[str, Extent]]) -> list[StoredFile]:
    """Those that lie at these extents, by name. What lies in `_metadata` is read."""
    return [_stored(contents, name, extent) for name, extent in named]


def _stored(contents: SnapshotFiles, name: str, extent: Extent) -> StoredFile:
    uri, pin = contents.versions[extent.file]
    if extent.file == 0:
        return StoredFile(name, uri, extent.length, data=contents.read(extent))
    return StoredFile(name, uri, extent.length, extent.start, pin)

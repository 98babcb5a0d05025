"""The files of a RocksDB directory as RocksDB's reader wants them: by name, with the place and the version of each."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.files import DatabaseFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles


def stored_files(contents: SnapshotFiles, named: Iterable[tuple[str, Extent]]) -> list[DatabaseFile]:
    """Those that lie at these extents, by name. What lies in `_metadata` is read."""
    return [_stored(contents, name, extent) for name, extent in named]


def _stored(contents: SnapshotFiles, name: str, extent: Extent) -> DatabaseFile:
    uri, pin = contents.versions[extent.file]
    if extent.file == 0:
        return DatabaseFile(name, uri, extent.length, data=contents.read(extent))
    return DatabaseFile(name, uri, extent.length, extent.start, pin)

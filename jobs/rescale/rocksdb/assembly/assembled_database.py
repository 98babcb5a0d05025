"""Input and output of `assemble`: source databases, and the database that consists of their files and of new files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.stored_files import StoredFile, newest_options

LEVEL_0_SLOWDOWN = 20
"""Number of files in level 0 at which RocksDB begins to delay writes (`level0_slowdown_writes_trigger`)."""


@dataclass(frozen=True)
class SourceDatabase:
    """A database of which only the rows in `key_groups` are live state.

    `uri` names the database in errors, and `options` is the name of its OPTIONS file. `ingested` are the names of the
    SST files with a global sequence number in their properties (`TableProperties`).
    """

    uri: str
    manifest: Manifest
    key_groups: KeyGroupRange
    options: str | None = None
    ingested: frozenset[str] = frozenset()


def source_database(files: Sequence[StoredFile], manifest: Manifest, key_groups: KeyGroupRange) -> SourceDatabase:
    """Return the source database of a state handle's files; `ingested` stays empty, since no SST file is read."""
    options = newest_options(files)
    uri = next(file.uri for file in files if file.name.startswith("MANIFEST-"))
    return SourceDatabase(uri, manifest, key_groups, options.name if options else None)


@dataclass(frozen=True)
class ReusedFile:
    """File `name` of a new database, which is the unchanged file `source_name` of source number `source` (from 0)."""

    name: str
    source: int
    source_name: str


@dataclass(frozen=True)
class NewFile:
    """File `name` of a new database, which no source database has; `data` is its content."""

    name: str
    data: bytes


@dataclass(frozen=True)
class AssembledDatabase:
    """A new database: its MANIFEST, the files that it takes from source databases (`reused_files`), and its new files.

    `straddling` are the names of the reused files that also have rows of key groups of other subtasks.
    """

    manifest: Manifest
    reused_files: tuple[ReusedFile, ...]
    new_files: tuple[NewFile, ...]
    straddling: tuple[str, ...]

    @cached_property
    def foreign_bytes(self) -> int:
        """Total bytes of the straddling files, each of which Flink downloads for several subtasks."""
        files = self.manifest.files
        return sum(files[name].size for name in self.straddling)

    @cached_property
    def level_0_files(self) -> int:
        """Largest number of level-0 files in a column family; see `LEVEL_0_SLOWDOWN`."""
        families = self.manifest.column_families
        return max(sum(file.level == 0 for file in family.files) for family in families)

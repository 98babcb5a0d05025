"""Input and output of `assemble`: the source databases, and the database made of their files and new files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.stored_files import StoredFile, newest_options

LEVEL_0_SLOWDOWN_FILES = 20
"""Number of files in level 0 at which RocksDB begins to delay writes (`level0_slowdown_writes_trigger`)."""


@dataclass(frozen=True)
class SourceDatabase:
    """A database in which only rows of `key_groups` are live state.

    `uri` names the database in errors, and `options_name` is the name of its OPTIONS file. `ingested_names` are the
    names of the SST files with a global sequence number in their properties (`TableProperties`).
    """

    uri: str
    manifest: Manifest
    key_groups: KeyGroupRange
    options_name: str | None = None
    ingested_names: frozenset[str] = frozenset()


def source_database(files: Sequence[StoredFile], manifest: Manifest, key_groups: KeyGroupRange) -> SourceDatabase:
    """Return the source database with the files of a state handle.

    No SST file is read, so `ingested_names` is empty.
    """
    options_file = newest_options(files)
    uri = next(file.uri for file in files if file.name.startswith("MANIFEST-"))
    return SourceDatabase(uri, manifest, key_groups, options_file.name if options_file else None)


@dataclass(frozen=True)
class ReusedFile:
    """File `name` of a new database, which is the unchanged file `source_name` of source `source_number` (from 0)."""

    name: str
    source_number: int
    source_name: str


@dataclass(frozen=True)
class NewFile:
    """File `name` of a new database, which no source database has; `data` is its content."""

    name: str
    data: bytes


@dataclass(frozen=True)
class AssembledDatabase:
    """A new database: its MANIFEST, the files that it takes from source databases (`reused_files`), and its new files.

    `straddling_names` are the names of the reused files that also have rows of other subtasks' key groups.
    """

    manifest: Manifest
    reused_files: tuple[ReusedFile, ...]
    new_files: tuple[NewFile, ...]
    straddling_names: tuple[str, ...]

    @cached_property
    def straddling_bytes(self) -> int:
        """Total bytes of the straddling files, each of which Flink downloads for several subtasks."""
        files = self.manifest.files
        return sum(files[name].size for name in self.straddling_names)

    @cached_property
    def most_level_0_files(self) -> int:
        """Largest number of level-0 files in a column family; see `LEVEL_0_SLOWDOWN_FILES`."""
        families = self.manifest.column_families
        return max(sum(file.level == 0 for file in family.files) for family in families)

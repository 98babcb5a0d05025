"""The input and the output of `assemble`: source databases, and a database of files of the sources and new files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.stored_files import StoredFile, newest_options

SLOWS_DOWN = 20
"""Files of level 0 from which on RocksDB delays writes (`level0_slowdown_writes_trigger`)."""


@dataclass(frozen=True)
class SourceDatabase:
    """A database that speaks for `key_groups` and no others; `uri` names it in errors, `options` its OPTIONS file.

    `ingested` are the SST files that tell a sequence number for all of their rows (`TableProperties`).
    """

    uri: str
    manifest: Manifest
    key_groups: KeyGroupRange
    options: str | None = None
    ingested: frozenset[str] = frozenset()


def source_database(files: Sequence[StoredFile], manifest: Manifest, key_groups: KeyGroupRange) -> SourceDatabase:
    """Return the source database of the files of a handle; its ingested files are not known yet."""
    options = newest_options(files)
    uri = next(file.uri for file in files if file.name.startswith("MANIFEST-"))
    return SourceDatabase(uri, manifest, key_groups, options.name if options else None)


@dataclass(frozen=True)
class TakenFile:
    """The file `source_name` of the source with that number, which is called `name` in the new database."""

    name: str
    source: int
    source_name: str


@dataclass(frozen=True)
class MadeFile:
    """A file that exists in no source."""

    name: str
    data: bytes


@dataclass(frozen=True)
class AssembledDatabase:
    """A database, file by file; `reaching_out` are the names of those that hold rows of foreign key groups."""

    manifest: Manifest
    taken: tuple[TakenFile, ...]
    made: tuple[MadeFile, ...]
    reaching_out: tuple[str, ...]

    @cached_property
    def foreign_bytes(self) -> int:
        """Bytes of the files that reach out: Flink fetches them for more than one subtask."""
        files = self.manifest.files
        return sum(files[name].size for name in self.reaching_out)

    @cached_property
    def level_0_files(self) -> int:
        """The most that a column family has in level 0; see `SLOWS_DOWN`."""
        families = self.manifest.column_families
        return max(sum(file.level == 0 for file in family.files) for family in families)

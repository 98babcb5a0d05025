"""Snapshots whose RocksDB directories have a few small files each, and results made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rescale.execution.compare.validation.directories import DirectoryFiles, match_directories
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import read_keyed_header, write_keyed_header
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.assembly.assembly import assemble
from rescale.rocksdb.database_layout import MANIFEST_NAME
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.manifest.version_edit import LARGEST_SEQUENCE, RANGE_DELETION, VALUE, FileTag, LiveFile
from rescale.rocksdb.sst.tombstone import write_tombstone
from rescale.rocksdb.stored_files import CURRENT
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.keyed_state import Database, DatabaseFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.storage.store import Pin, open_store
from rescale.text.errors import IntegrityError
from support.snapshot_bytes import keyed_header, keyed_state
from support.synthetic import operator, snapshot

MAXIMUM = 16
HEADER = read_keyed_header(keyed_header(*map(keyed_state, ("one", "two"))), "")
Contents = Mapping[str, bytes]
"""Contents of the files of a directory, by name."""


def rows(number: int, first: int, last: int, age: int = 1, level: int = 0, size: int = 100) -> LiveFile:
    """Return a MANIFEST's entry of a file with rows of the key groups from `first` to `last`."""
    keys = (InternalKey(bytes((group, 7)), age, VALUE) for group in (first, last))
    return LiveFile(level, number, size, *keys, age, age, ((FileTag.EPOCH_NUMBER, bytes([age])),))


def deletion(number: int, first: int, end: int, age: int) -> tuple[LiveFile, bytes]:
    """Return a file that deletes all rows from the key group `first` up to the key group `end`, without `end`."""
    data = write_tombstone(bytes([first]), bytes([end]), age, column_family=(1, "one"), creation_time=1)
    keys = (
        InternalKey(bytes([first]), age, RANGE_DELETION),
        InternalKey(bytes([end]), LARGEST_SEQUENCE, RANGE_DELETION),
    )
    return LiveFile(0, number, len(data), *keys, age, age, ((FileTag.EPOCH_NUMBER, bytes([age])),)), data


def directory(
    *first: LiveFile, two: Sequence[LiveFile] = (), options: bytes | None = None, seed: int = 0, **data: bytes
) -> dict[str, bytes]:
    """Return the files of a directory with two states, `one` and `two`.

    `data` has the contents of SST files: `_000009` is the file `000009.sst`. The content of any other SST file repeats
    the number of the file and `seed`.
    """
    families = (
        ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ()),
        ColumnFamily(1, "one", tuple(sorted(first, key=lambda file: (file.level, file.number)))),
        ColumnFamily(2, "two", tuple(two)),
    )
    files = {file.name: bytes([file.number, seed]) * (file.size // 2) for file in (*first, *two)}
    files |= {name.replace("_", "") + ".sst": content for name, content in data.items()}
    files |= {
        CURRENT: write_current(MANIFEST_NAME),
        MANIFEST_NAME: write_manifest(Manifest(families, 200, 900), MANIFEST_NAME),
    }
    return files if options is None else {**files, "OPTIONS-000006": options}


@dataclass
class WrittenSnapshot:
    """Snapshot that a test writes file by file; file 0 is `_metadata`."""

    folder: Path
    files: list[tuple[str, Pin]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.files.append((str(self.folder / "_metadata"), Pin(9)))

    def put(self, name: str, data: bytes) -> Extent:
        path = self.folder / f"{len(self.files)}-{name}"
        path.write_bytes(data)
        return self.refer(str(path))

    def refer(self, uri: str) -> Extent:
        pin = open_store(uri).stat(uri)
        assert pin is not None
        self.files.append((uri, pin))
        return Extent(len(self.files) - 1, 0, pin.size)

    def database(self, subtask: int, first: int, last: int, contents: Contents) -> Database:
        return self.listed(subtask, first, last, {name: self.put(name, data) for name, data in contents.items()})

    def listed(self, subtask: int, first: int, last: int, extents: Mapping[str, Extent]) -> Database:
        header = write_keyed_header(HEADER)
        files = tuple(DatabaseFile(name, extent) for name, extent in extents.items())
        return Database(subtask, KeyGroupRange(first, last), self.put("states", header), header, HEADER, files)

    def snapshot(self, *databases: Database, others: Sequence[Operator] = ()) -> Snapshot:
        """Return the snapshot with a subtask for each directory; operators `others` come first."""
        own = operator("op", len(databases), MAXIMUM, databases=databases)
        return replace(snapshot(*others, own), directory=str(self.folder), files=tuple(self.files))

    def of(self, *parts: tuple[int, int, Contents]) -> Snapshot:
        return self.snapshot(*(self.database(i, *part) for i, part in enumerate(parts)))


HALVES = (
    (0, 7, directory(rows(4, 0, 7, 3), rows(5, 2, 4, 4), two=[rows(6, 1, 6, 5)], options=b"# of the first\n")),
    (8, 15, directory(rows(4, 8, 15, 3, size=102), two=[rows(5, 9, 9, 4)], options=b"# of the second\n", seed=1)),
)


def sources(snapshot: Snapshot) -> list[SourceDatabase]:
    (operator,) = (operator for operator in with_tables(snapshot).operators if operator.databases)
    found_sources = [database.source for database in operator.databases]
    return [source for source in found_sources if source is not None]


def assembled(parts: Sequence[tuple[int, int, Contents]], old: Snapshot, first: int, last: int) -> dict[str, bytes]:
    """Return the files of these key groups' directory, assembled from the directories `parts` of `old`."""
    own = KeyGroupRange(first, last)
    chosen = [
        (source, part)
        for source, part in zip(sources(old), parts, strict=True)
        if len(source.key_groups.intersection(own))
    ]
    made = assemble([source for source, _ in chosen], own, MAXIMUM)
    files = {file.name: chosen[file.source_number][1][2][file.source_name] for file in made.reused_files}
    return files | {file.name: file.data for file in made.new_files}


def thirds(old: Snapshot) -> list[tuple[int, int, dict[str, bytes]]]:
    """Return the directories of three subtasks, assembled from `HALVES`."""
    owns = [key_group_range(MAXIMUM, 3, subtask) for subtask in range(3)]
    return [(own.first, own.last, assembled(HALVES, old, own.first, own.last)) for own in owns]


def compared(old: Snapshot, new: Snapshot) -> dict[int, DirectoryFiles]:
    *_, directories = match_directories(old, new)
    return directories


def contents(snapshot: Snapshot, extent: Extent) -> bytes:
    return Path(snapshot.files[extent.file][0]).read_bytes()


def refused(old: Snapshot, new: Snapshot, message: str) -> IntegrityError:
    with pytest.raises(IntegrityError, match=message) as caught:
        match_directories(old, new)
    assert caught.value.operator == "op"
    return caught.value

"""Column families and live files of a RocksDB directory, from its CURRENT and MANIFEST (`VersionSet::Recover`).

CURRENT names the MANIFEST. The MANIFEST is the history of the database: each record lists files that were added and
deleted. Flink creates a column family for each state; the column family `default` (id 0) stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.rocksdb.manifest.log_framing import read_log
from rescale.rocksdb.manifest.version_edit import LiveFile, VersionEdit, read_version_edit
from rescale.text.errors import SnapshotError, UnsupportedError

DEFAULT_COLUMN_FAMILY = "default"
LARGEST_MANIFEST_BYTES = 256 * 1024 * 1024
"""Largest size in bytes of a MANIFEST that is read into memory; usual sizes are a few KB."""

_MANIFEST_NAME = re.compile(r"MANIFEST-\d+")


@dataclass(frozen=True)
class ColumnFamily:
    """A column family; its `files` are ordered by level and number."""

    id: int
    name: str
    files: tuple[LiveFile, ...]


@dataclass(frozen=True)
class Manifest:
    """The state of a database that its MANIFEST describes; `column_families` are ordered by id."""

    column_families: tuple[ColumnFamily, ...]
    last_sequence: int
    next_file_number: int

    @property
    def files(self) -> dict[str, LiveFile]:
        """All live files by their names in the directory."""
        return {file.name: file for family in self.column_families for file in family.files}


def read_current(data: bytes, path: str) -> str:
    """Return the name of the MANIFEST from the content of CURRENT. Raises `SnapshotError` if CURRENT names none."""
    text = data.decode(errors="replace")
    name = text.removesuffix("\n")
    if name == text or not _MANIFEST_NAME.fullmatch(name):
        expected_content = "MANIFEST-<number> and a newline"
        raise SnapshotError("CURRENT names no MANIFEST", path=path, expected=expected_content, found=text)
    return name


def read_manifest(data: bytes, path: str) -> Manifest:
    """Read the content of a MANIFEST; `path` names the file in errors.

    Raises `SnapshotError` if it is damaged or torn, and `UnsupportedError` if it is too large or has unsupported
    features.
    """
    history = _History(path)
    for edit in read_edits(data, path):
        history.apply(edit)
    return history.result()


def read_edits(data: bytes, path: str) -> Iterator[VersionEdit]:
    """Yield the edits of a MANIFEST in order. Raises the errors of `read_manifest`."""
    check_manifest_size(len(data), path)
    edits = (read_version_edit(record.payload, path, record.offset) for record in read_log(data, path))
    return _whole_groups(edits, path)


def check_manifest_size(size: int, path: str) -> None:
    """Raise `UnsupportedError` for a MANIFEST that is too large to read."""
    if size > LARGEST_MANIFEST_BYTES:
        raise UnsupportedError(
            "a MANIFEST is too large",
            path=path,
            expected=f"at most {LARGEST_MANIFEST_BYTES} bytes",
            found=f"{size} bytes",
            advice=f"restart the job, which begins a new one, or {RESCALE_CANONICAL_SAVEPOINT}",
        )


def _whole_groups(edits: Iterable[VersionEdit], path: str) -> Iterator[VersionEdit]:
    """Yield all edits, after a check that every atomic group is complete (`AtomicGroupReadBuffer`).

    RocksDB drops an incomplete group without an error.
    """
    group: list[VersionEdit] = []
    edits_left = 0
    for edit in edits:
        following_count = edit.edits_left_in_group
        if (following_count is None and edits_left) or (
            following_count is not None and edits_left and following_count != edits_left - 1
        ):
            raise SnapshotError(
                "an atomic group of edits is interrupted",
                path=path,
                offset=edit.offset,
                expected=edits_left - 1,
                found=following_count,
            )
        group.append(edit)
        edits_left = following_count or 0
        if not edits_left:
            yield from group
            group.clear()
    if group:
        raise SnapshotError("the file ends inside an atomic group of edits", path=path, offset=group[0].offset)


class _History:
    """State of the database after the edits read so far."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = {0: DEFAULT_COLUMN_FAMILY}
        self._files: dict[int, dict[int, LiveFile]] = {0: {}}
        self._last_sequence = self._next_file_number = 0
        self._seen_fields: set[str] = set()

    def apply(self, edit: VersionEdit) -> None:
        if edit.next_file_number is not None:
            self._next_file_number = max(self._next_file_number, edit.next_file_number)
            self._seen_fields.add("next file number")
        if edit.last_sequence is not None:
            self._last_sequence = max(self._last_sequence, edit.last_sequence)
            self._seen_fields.add("last sequence")
        if edit.added_family is not None:
            self._add_column_family(edit, edit.added_family)
        elif edit.column_family not in self._names:
            raise self._error("an edit of a column family that does not exist", edit, edit.column_family)
        elif edit.is_dropped:
            if edit.column_family == 0:
                raise self._error("the column family 0 is dropped, which RocksDB does not allow", edit, self._names[0])
            del self._names[edit.column_family], self._files[edit.column_family]
        else:
            self._change_files(edit)

    def _add_column_family(self, edit: VersionEdit, name: str) -> None:
        if edit.column_family in self._names or name in self._names.values():
            raise self._error("a column family is added twice", edit, name)
        if edit.added_files or edit.deleted_files:
            raise self._error("the edit that adds a column family lists files, which RocksDB ignores there", edit, name)
        self._names[edit.column_family] = name
        self._files[edit.column_family] = {}

    def _change_files(self, edit: VersionEdit) -> None:
        """Apply deletions first: an edit that deletes and adds the same file moves it to another level."""
        files = self._files[edit.column_family]
        for deleted in edit.deleted_files:
            file = files.pop(deleted.number, None)
            if file is None or file.level != deleted.level:
                raise self._error(
                    "an edit deletes a file that does not exist", edit, f"{deleted.number} of level {deleted.level}"
                )
        for file in edit.added_files:
            if file.number in files:
                raise self._error("a file is added twice", edit, file.name)
            files[file.number] = file

    def result(self) -> Manifest:
        missing_fields = {"next file number", "last sequence"} - self._seen_fields
        if missing_fields:
            raise SnapshotError(
                "the MANIFEST is incomplete", path=self._path, expected=", ".join(sorted(missing_fields))
            )
        families = tuple(
            ColumnFamily(i, name, tuple(sorted(self._files[i].values(), key=lambda file: (file.level, file.number))))
            for i, name in sorted(self._names.items())
        )
        manifest = Manifest(families, self._last_sequence, self._next_file_number)
        self._check(manifest)
        return manifest

    def _check(self, manifest: Manifest) -> None:
        files = [file for family in manifest.column_families for file in family.files]
        if len({file.number for file in files}) != len(files):
            raise SnapshotError("two live files have the same number", path=self._path)
        for file in files:
            if file.number >= manifest.next_file_number:
                raise SnapshotError(
                    "the number of a live file is not below the next file number",
                    path=self._path,
                    expected=f"below {manifest.next_file_number}",
                    found=file.number,
                )
            if file.largest_sequence > manifest.last_sequence:
                raise SnapshotError(
                    "a live SST file has sequence numbers above the last sequence number of the MANIFEST, so RocksDB "
                    "would hide its newest rows",
                    path=self._path,
                    expected=f"at most {manifest.last_sequence}",
                    found=f"{file.largest_sequence} in {file.name}",
                )

    def _error(self, what: str, edit: VersionEdit, found: object) -> SnapshotError:
        return SnapshotError(what, path=self._path, offset=edit.offset, found=found)

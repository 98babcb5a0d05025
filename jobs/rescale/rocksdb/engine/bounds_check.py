"""Check that the key range of every SST file in the MANIFEST covers all rows of the file.

An iterator returns all rows of a file, whatever key range the MANIFEST records. A job looks up single keys, and a
lookup reads only files whose range has the key (`FilePicker`, `FindFile`), so it would miss rows outside of the range.
A range may be wider than the rows, because range tombstones widen it.
"""

from __future__ import annotations

from functools import partial

from rescale.flink.advice import TAKE_ANOTHER_SNAPSHOT
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.rocksdb.sst.table_entries import TableRow
from rescale.rocksdb.stored_files import StoredFile
from rescale.text.errors import SnapshotError, UnsupportedError


def check_bounds(directory: DatabaseDirectory, manifest: Manifest) -> None:
    """Raise `SnapshotError` if a file has rows outside of its range in the MANIFEST.

    The check reads the end, the index and two blocks of each file. It skips damaged files, which RocksDB reports, and
    files of a format that `SstTable` does not support.
    """
    file_by_name = {file.name: file for file in directory.files}
    uri = next(file.uri for file in directory.files if file.name.startswith("MANIFEST-"))
    for family in manifest.column_families:
        for live_file in family.files:
            first_and_last = _first_and_last_row(directory, file_by_name[live_file.name])
            if first_and_last is not None:
                _check_rows_in_range(live_file, *first_and_last, uri, family.name)


def _first_and_last_row(directory: DatabaseDirectory, file: StoredFile) -> tuple[TableRow, TableRow] | None:
    try:
        with (directory.path / file.name).open("rb") as open_file:
            return SstTable(partial(read_at, open_file.fileno()), file.length, file.uri).first_and_last_row()
    except (FileNotFoundError, SnapshotError, UnsupportedError):
        return None


def _check_rows_in_range(live_file: LiveFile, first_row: TableRow, last_row: TableRow, uri: str, state: str) -> None:
    first_key = InternalKey(first_row.key, first_row.sequence, first_row.kind)
    # Rows of an ingested file have sequence number 0; the number in the MANIFEST applies (`GetGlobalSequenceNumber`).
    last_key = InternalKey(last_row.key, last_row.sequence or live_file.largest_sequence, last_row.kind)
    if live_file.smallest_key.order > first_key.order:
        raise _error("begins after its first row", live_file, first_key, live_file.smallest_key, uri, state)
    if live_file.largest_key.order < last_key.order:
        raise _error("ends before its last row", live_file, last_key, live_file.largest_key, uri, state)


def _error(what: str, live_file: LiveFile, row: InternalKey, bound: InternalKey, uri: str, state: str) -> SnapshotError:
    return SnapshotError(
        f"the key range of {live_file.name} in the MANIFEST {what}, so a job would not find this row",
        path=uri,
        state=state,
        expected=_key_text(row),
        found=_key_text(bound),
        advice=TAKE_ANOTHER_SNAPSHOT,
    )


def _key_text(key: InternalKey) -> str:
    return f"{key.user_key.hex()} (sequence number {key.sequence}, type {key.kind})"

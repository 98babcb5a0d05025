"""Whether the MANIFEST has every SST file begin at its first row, or before it, and end at its last one, or behind it.

Who iterates over a file sees all of its rows, whatever is said of it. But who asks for one key, as a job does, only
looks into the file that is to have it (`FilePicker`, `FindFile`): rows outside of what the MANIFEST tells are there,
and are not found. A deleted range may make a file wider than its rows, so wider is never wrong.
"""

from __future__ import annotations

from functools import partial

from rescale.flink.advice import ANOTHER
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.rocksdb.sst.table_entries import TableRow
from rescale.rocksdb.stored_files import StoredFile
from rescale.text.errors import SnapshotError, UnsupportedError


def check_bounds(directory: DatabaseDirectory, manifest: Manifest) -> None:
    """`SnapshotError` for a file that has rows outside of what its MANIFEST tells.

    Of each file its end, its index and two blocks are read. Those that are damaged, or in a form that is not read
    here, are left to RocksDB.
    """
    by_name = {file.name: file for file in directory.files}
    uri = next(file.uri for file in directory.files if file.name.startswith("MANIFEST-"))
    for family in manifest.column_families:
        for live in family.files:
            ends = _ends(directory, by_name[live.name])
            if ends is not None:
                _check(live, *ends, uri, family.name)


def _ends(directory: DatabaseDirectory, file: StoredFile) -> tuple[TableRow, TableRow] | None:
    try:
        with (directory.path / file.name).open("rb") as opened:
            return SstTable(partial(read_at, opened.fileno()), file.length, file.uri).ends()
    except (FileNotFoundError, SnapshotError, UnsupportedError):
        return None


def _check(live: LiveFile, first: TableRow, last: TableRow, uri: str, state: str) -> None:
    begin = InternalKey(first.key, first.sequence, first.kind)
    # Rows of an ingested file have 0, and count as if they had the MANIFEST's number (`GetGlobalSequenceNumber`).
    end = InternalKey(last.key, last.sequence or live.largest_sequence, last.kind)
    if live.smallest_key.order > begin.order:
        raise _error("begin behind its first row", live, begin, live.smallest_key, uri, state)
    if live.largest_key.order < end.order:
        raise _error("end before its last row", live, end, live.largest_key, uri, state)


def _error(what: str, live: LiveFile, row: InternalKey, bound: InternalKey, uri: str, state: str) -> SnapshotError:
    return SnapshotError(
        f"the MANIFEST has {live.name} {what}, which a job would not find",
        path=uri,
        state=state,
        expected=_text(row),
        found=_text(bound),
        advice=ANOTHER,
    )


def _text(key: InternalKey) -> str:
    return f"{key.user_key.hex()} (number {key.sequence}, type {key.kind})"

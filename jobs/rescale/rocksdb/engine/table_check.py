"""Search for SST files that would crash RocksDB, before it opens a directory or after it crashed.

Footers have no checksum, so `check_tables` checks them before RocksDB opens the directory. All other lists of blocks
have checksums, so they can crash RocksDB only if they are forged. `check_all_blocks` searches for a forged list after a
crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.sst.footer import FOOTER_SIZE, check_blocks_of_footer, check_handle
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.rocksdb.sst.table_blocks import WrongChecksum
from rescale.rocksdb.stored_files import StoredFile
from rescale.text.errors import UnsupportedError


def check_tables(directory: DatabaseDirectory) -> None:
    """Raise `SnapshotError` if the footer of an SST file would crash RocksDB."""
    for file, read in _tables(directory):
        footer_bytes = read(max(0, file.length - FOOTER_SIZE), FOOTER_SIZE)
        check_blocks_of_footer(footer_bytes, file.length, file.uri, file.start)


def check_all_blocks(directory: DatabaseDirectory) -> None:
    """Raise `SnapshotError` if the index, or another list of blocks, of an SST file would crash RocksDB."""
    for file, read in _tables(directory):
        _check_blocks(read, file.length, file.uri)


def _tables(directory: DatabaseDirectory) -> Iterator[tuple[StoredFile, Callable[[int, int], bytes]]]:
    """Yield each SST file with a function that reads it; missing files are skipped, since RocksDB reports them."""
    for file in directory.files:
        if file.name.endswith(".sst"):
            with suppress(FileNotFoundError), (directory.path / file.name).open("rb") as open_file:
                yield file, partial(read_at, open_file.fileno())


def _check_blocks(read: Callable[[int, int], bytes], size: int, uri: str) -> None:
    """Check all blocks that refer to other blocks.

    Wrong checksums, which RocksDB refuses, and unsupported formats are no errors here.
    """
    try:
        table = SstTable(read, size, uri)
        for handle in table.meta_handles.values():
            check_handle(handle, size, uri)
        for entry in table.index_entries():
            check_handle(entry.handle, size, uri)
        for _ in table.range_tombstones():
            pass
    except (WrongChecksum, UnsupportedError):
        return

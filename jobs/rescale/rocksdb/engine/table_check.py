"""What RocksDB would not survive, looked for before it opens a directory, or when it has not survived it.

Footers have no checksum, so they are always looked at first. All else that tells of blocks has: only who forges a file
makes it so that RocksDB's process ends, and only then it is looked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from rescale.errors import UnsupportedError
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.sst.footer import FOOTER_SIZE, check_blocks_of_footer, check_handle
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import WrongChecksum
from rescale.rocksdb.stored_files import StoredFile


def check_tables(directory: DatabaseDirectory) -> None:
    """`SnapshotError` for an SST file with a footer that RocksDB would not survive."""
    for file, read in _tables(directory):
        footer = read(max(0, file.length - FOOTER_SIZE), FOOTER_SIZE)
        check_blocks_of_footer(footer, file.length, file.uri, file.start)


def check_all_blocks(directory: DatabaseDirectory) -> None:
    """`SnapshotError` for an SST file with an index, or another table of blocks, that RocksDB would not survive."""
    for file, read in _tables(directory):
        _check_blocks(read, file.length, file.uri)


def _tables(directory: DatabaseDirectory) -> Iterator[tuple[StoredFile, Callable[[int, int], bytes]]]:
    """With what reads each; those that are gone are RocksDB's to tell."""
    for file in directory.files:
        if file.name.endswith(".sst"):
            with suppress(FileNotFoundError), (directory.path / file.name).open("rb") as opened:
                yield file, partial(read_at, opened.fileno())


def read_at(descriptor: int, start: int, size: int) -> bytes:
    return os.pread(descriptor, size, start)


def _check_blocks(read: Callable[[int, int], bytes], size: int, uri: str) -> None:
    """All that tells of other blocks; what has a wrong checksum, or a form that is not read here, RocksDB looks at."""
    try:
        table = SstTable(read, size, uri)
        for block in table.parts:
            check_handle(block, size, uri)
        for entry in table.index():
            check_handle(entry.block, size, uri)
        for _ in table.deleted_ranges():
            pass
    except (WrongChecksum, UnsupportedError):
        return

"""What RocksDB would not survive, looked for before it opens a directory.

It checks every block's checksum, and says what is damaged. But it believes what has the right one: for a block that is
larger than its file it asks for as much memory, and an exception that nobody catches ends the process; and it reads
beyond the end of a list of parts that is none. Footers have no checksum, so they are always looked at. The rest has:
only who forges a file makes it so, and to read all indexes costs a good part of what reading the rows does. So a task
of Spark's, whose process is not the only one, does that when it is tried again; everybody else at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from rescale.errors import UnsupportedError
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.sst.footer import FOOTER_SIZE, check_blocks_of_footer, check_handle
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import WrongChecksum

_closely: list[Callable[[], bool]] = []


def look_closely_if(asked: Callable[[], bool]) -> None:
    """From now on this process looks at indexes only where the answer is yes."""
    _closely[:] = [asked]


def check_tables(directory: DatabaseDirectory) -> None:
    """`SnapshotError` for a damaged or forged SST file that RocksDB would not survive."""
    closely = all(asked() for asked in _closely)
    for file in directory.files:
        if not file.name.endswith(".sst"):
            continue
        try:
            with (directory.path / file.name).open("rb") as opened:
                read = partial(read_at, opened.fileno())
                footer = read(max(0, file.length - FOOTER_SIZE), FOOTER_SIZE)
                check_blocks_of_footer(footer, file.length, file.uri, file.start)
                if closely:
                    _check_blocks(read, file.length, file.uri)
        except FileNotFoundError:
            continue  # RocksDB says so


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

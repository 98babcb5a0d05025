"""SST files for Rescale's own reader, unchanged or with corrected checksums of their blocks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from fuzzing.subject import Subject
from fuzzing.subjects.manifest import SNAPSHOTS
from rescale.rocksdb.sst import table
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import CHECKSUM_FUNCTIONS, TRAILER_SIZE, ChecksumType, uncompressed_content
from rescale.rocksdb.stored_files import StoredFile
from support.databases import databases, read_file
from support.rocksdb_writer import MERGE, written

_AS_IT_STANDS, _SEALED = range(2)
_LARGEST_SEED_BYTES = 6 * 1024
MOST_BLOCKS = 50


def small_tables() -> Iterator[bytes]:
    for name in (*SNAPSHOTS, "2-rocksdb-native", "1.20-rocksdb-3to2"):
        for file in databases(name)[0].files:
            if file.name.endswith(".sst") and file.length <= _LARGEST_SEED_BYTES:
                yield read_file(file)


@cache
def unpacked_database() -> tuple[StoredFile, ...]:
    """Return in-memory files of a database with uncompressed blocks, puts, merges, deletes and a range tombstone."""
    with tempfile.TemporaryDirectory() as folder:
        options = f"{MERGE};compression=kNoCompression;block_based_table_factory={{block_size=256;checksum=kCRC32c}}"
        with written(Path(folder, "db"), ["state"], options) as writer:
            for i in range(30):
                writer.put("state", bytes((i, i)) + b"key", b"value" * i)
            writer.flush()
            for i in range(0, 30, 3):
                writer.add("state", bytes((i, i)) + b"key", b"more")
                writer.delete("state", bytes((i + 1, i + 1)) + b"key")
            writer.delete_range("state", b"\5", b"\7")
            writer.flush()
            files = writer.checkpoint(Path(folder, "taken"))
        return tuple(replace(file, data=read_file(file)) for file in files)


def _seeds() -> Iterator[bytes]:
    unpacked_tables = (read_file(file) for file in unpacked_database() if file.name.endswith(".sst"))
    for data in (*small_tables(), *unpacked_tables):
        yield bytes((_AS_IT_STANDS,)) + data
        yield bytes((_SEALED,)) + data


class Sealing:
    """Repairs the checksums of the blocks that are read; `data` is the file with the repaired checksums."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    def unpacked(self, stored: bytes, kind: ChecksumType, path: str, offset: int) -> bytes:
        if len(stored) < TRAILER_SIZE:
            return uncompressed_content(stored, kind, path, offset)
        checksum = CHECKSUM_FUNCTIONS[kind](stored[:-4]).to_bytes(4, "little")
        end = offset + len(stored)
        self.data[end - 4 : end] = checksum
        return uncompressed_content(stored[:-4] + checksum, kind, path, offset)


def read_table(data: bytes) -> None:
    """Read a file as far as Rescale's own reader can: range tombstones, index and rows."""

    def read_range(start: int, size: int) -> bytes:
        assert 0 <= start <= start + size <= len(data)
        return data[start : start + size]

    sst_table = SstTable(read_range, len(data), "000001.sst")
    assert sst_table.index_size >= 0
    for _ in sst_table.range_tombstones():
        pass
    for i, entry in enumerate(sst_table.index_entries()):
        if i < MOST_BLOCKS:
            for row in sst_table.rows(entry.handle):
                assert row.sequence >= 0


def _look(data: bytes) -> None:
    kind, data = data[0] % 2 if data else 0, data[1:]
    if kind == _SEALED:
        with patch.object(table, "uncompressed_content", Sealing(data).unpacked):
            read_table(data)
    else:
        read_table(data)


SUBJECT = Subject(_seeds, _look)

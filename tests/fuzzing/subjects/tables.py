"""SST files by our own reader, as they stand or with the checksums of their blocks right."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from fuzzing.subject import Subject
from fuzzing.subjects.manifest import SNAPSHOTS
from rescale.rocksdb.sst import table
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import CHECKSUMS, TRAILER_SIZE, ChecksumType, unpacked
from support.databases import databases, read_file

_AS_IT_STANDS, _SEALED = range(2)
_LARGEST_SEED = 6 * 1024
MOST_BLOCKS = 50


def tables() -> Iterator[bytes]:
    for name in (*SNAPSHOTS, "2-rocksdb-native", "1.20-rocksdb-3to2"):
        for file in databases(name)[0].files:
            if file.name.endswith(".sst") and file.length <= _LARGEST_SEED:
                yield read_file(file)


def _seeds() -> Iterator[bytes]:
    for data in tables():
        yield bytes((_AS_IT_STANDS,)) + data
        yield bytes((_SEALED,)) + data


class Sealing:
    """Gives the blocks of a file the checksums that they should have, and notes where."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    def unpacked(self, stored: bytes, kind: ChecksumType, path: str, offset: int) -> bytes:
        if len(stored) < TRAILER_SIZE:
            return unpacked(stored, kind, path, offset)
        checksum = CHECKSUMS[kind](stored[:-4]).to_bytes(4, "little")
        end = offset + len(stored)
        self.data[end - 4 : end] = checksum
        return unpacked(stored[:-4] + checksum, kind, path, offset)


def read_table(data: bytes) -> None:
    """All that our own reader can make of a file."""

    def read(start: int, size: int) -> bytes:
        assert 0 <= start <= start + size <= len(data)
        return data[start : start + size]

    opened = SstTable(read, len(data), "000001.sst")
    assert opened.index_size >= 0
    assert opened.needs_flink_2 in (True, False)
    for _ in opened.deleted_ranges():
        pass
    for number, entry in enumerate(opened.index()):
        if number < MOST_BLOCKS:
            for row in opened.rows(entry.block):
                assert row.sequence >= 0


def _look(data: bytes) -> None:
    kind, data = data[0] % 2 if data else 0, data[1:]
    if kind == _SEALED:
        with patch.object(table, "unpacked", Sealing(data).unpacked):
            read_table(data)
    else:
        read_table(data)


SUBJECT = Subject(_seeds, _look)

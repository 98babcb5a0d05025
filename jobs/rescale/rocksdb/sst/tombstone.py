"""An SST file that holds nothing but one deleted range, as RocksDB's own `BlockBasedTableBuilder` writes it.

It goes into level 0 with the newest sequence number of its database: there all releases see it before any row, and
hide the rows of the range, however deep they lie. It has its sequence number in its key, as flushed files have. One
that `SstFileWriter` writes has 0 there, and releases differ in what they do with it; the C interface of RocksDB 6
cannot write one at all.
"""

from __future__ import annotations

from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import internal_key, varint
from rescale.rocksdb.manifest.version_edit import BYTEWISE, RANGE_DELETION
from rescale.rocksdb.sst.block_writer import BlockFile, write_entries, write_handle
from rescale.rocksdb.sst.table_properties import PREFIX, RANGE_DELETIONS


def write_tombstone(begin: bytes, end: bytes, sequence: int, *, column_family: tuple[int, str], created: int) -> bytes:
    """The file that deletes the user keys in [begin, end); `created` is in seconds since 1970.

    `column_family` are id and name, which RocksDB only shows.
    """
    key = internal_key(InternalKey(begin, sequence, RANGE_DELETION))
    file = BlockFile()
    index = file.add(write_entries(()))
    deleted = file.add(write_entries([(key, end)]))
    properties = file.add(write_entries(_properties(key, end, column_family, created, index.size)))
    parts = {b"rocksdb.properties": properties, RANGE_DELETIONS: deleted}
    metaindex = file.add(
        write_entries(((name, write_handle(handle)) for name, handle in parts.items()), whole_keys=True)
    )
    return file.finish(metaindex, index)


def _properties(
    key: bytes, end: bytes, column_family: tuple[int, str], created: int, index_size: int
) -> list[tuple[bytes, bytes]]:
    """What RocksDB reads back, or a tool may show, in the order of the names."""
    numbers = {
        "column.family.id": column_family[0],
        "creation.time": created,
        "data.size": 0,
        "deleted.keys": 1,
        "file.creation.time": created,
        "filter.size": 0,
        "fixed.key.length": 0,
        "format.version": 0,
        "index.key.is.user.key": 1,
        "index.size": index_size + 5,
        "index.value.is.delta.encoded": 1,
        "merge.operands": 0,
        "num.data.blocks": 0,
        "num.entries": 1,
        "num.range-deletions": 1,
        "oldest.key.time": created,
        "raw.key.size": len(key),
        "raw.value.size": len(end),
    }
    texts = {
        "block.based.table.index.type": "\0\0\0\0",
        "block.based.table.prefix.filtering": "0",
        "block.based.table.whole.key.filtering": "1",
        "column.family.name": column_family[1],
        "comparator": BYTEWISE,
        "compression": "Snappy",
        "merge.operator": "StringAppendTESTOperator",
        "prefix.extractor.name": "nullptr",
        "property.collectors": "[]",
    }
    values = {name: varint(number) for name, number in numbers.items()}
    values |= {name: text.encode() for name, text in texts.items()}
    return [(f"{PREFIX}{name}".encode(), value) for name, value in sorted(values.items())]

"""Writer of an SST file with one range tombstone and nothing else, as RocksDB's `BlockBasedTableBuilder` writes it.

The file goes into level 0 with the newest sequence number of its database. All releases of RocksDB read a tombstone
there before any older row, so it hides the rows of its range in all levels. The key of the tombstone has this sequence
number, as in flushed files. `SstFileWriter` would write sequence number 0, which releases of RocksDB treat differently,
and the C interface of RocksDB 6 cannot write tombstones.
"""

from __future__ import annotations

from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import internal_key
from rescale.rocksdb.manifest.version_edit import RANGE_DELETION
from rescale.rocksdb.sst.block_writer import BlockFile, write_entries, write_handle
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.sst.table_properties import PROPERTIES, RANGE_DELETIONS, property_entries


def write_tombstone(
    begin: bytes, end: bytes, sequence: int, *, column_family: tuple[int, str], creation_time: int
) -> bytes:
    """Return the bytes of an SST file with a range tombstone over the user keys in [begin, end).

    `column_family` is (id, name), which RocksDB does not check; `creation_time` is in seconds since 1970.
    """
    key = internal_key(InternalKey(begin, sequence, RANGE_DELETION))
    file = BlockFile()
    index_handle = file.add(write_entries(()))
    range_deletions_handle = file.add(write_entries([(key, end)]))
    properties_handle = file.add(
        write_entries(_properties(key, end, column_family, creation_time, index_handle.size + TRAILER_SIZE))
    )
    meta_handles = {PROPERTIES: properties_handle, RANGE_DELETIONS: range_deletions_handle}
    metaindex_handle = file.add(
        write_entries(((name, write_handle(handle)) for name, handle in meta_handles.items()), stores_whole_keys=True)
    )
    return file.finish(metaindex_handle, index_handle)


def _properties(
    key: bytes, end: bytes, column_family: tuple[int, str], creation_time: int, index_size: int
) -> list[tuple[bytes, bytes]]:
    family_id, family_name = column_family
    return property_entries(
        {
            "column.family.id": family_id,
            "creation.time": creation_time,
            "data.size": 0,
            "deleted.keys": 1,
            "file.creation.time": creation_time,
            "index.size": index_size,
            "num.entries": 1,
            "num.range-deletions": 1,
            "oldest.key.time": creation_time,
            "raw.key.size": len(key),
            "raw.value.size": len(end),
        },
        {"column.family.name": family_name, "compression": "Snappy", "merge.operator": "StringAppendTESTOperator"},
    )

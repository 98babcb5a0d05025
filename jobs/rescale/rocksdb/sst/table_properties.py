"""Reads the properties of an SST file (`TableProperties`), and lists those of a new file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.version_edit import BYTEWISE
from rescale.rocksdb.sst.table_entries import IndexFormat
from rescale.text.errors import UnsupportedError

PROPERTY_PREFIX = "rocksdb."
SESSION_PROPERTY, _NUMBER_PROPERTY = "creating.session.identity", "original.file.number"
PROPERTIES, RANGE_DELETIONS = b"rocksdb.properties", b"rocksdb.range_del"
"""Metaindex names of the properties block and of the block of range tombstones."""

_GLOBAL_SEQUENCE = b"rocksdb.external_sst_file.global_seqno"

_BINARY, _HASH, _PARTITIONED, _WITH_FIRST_KEYS = range(4)
"""Values of `BlockBasedTableOptions::IndexType`. A file with a hash index also has a binary index."""


@dataclass(frozen=True)
class TableProperties:
    """Properties of an SST file. `entry_count` counts rows and range tombstones.

    `index_size` is the size of the index in bytes before compression. `global_sequence` is the sequence number of all
    rows of an ingested file (`SstFileWriter`), else 0. `session_id` is the random id of the session that wrote the
    file, empty if it is unknown: RocksDB draws an id whenever it opens a database (`DBImpl::SetDbSessionId`).
    `file_number` is the encoded number of the file in that session, empty if it is unknown. An import gives the file
    another number.
    """

    column_family: str
    entry_count: int
    index_size: int
    has_partitioned_index: bool
    index_format: IndexFormat
    global_sequence: int
    session_id: bytes
    file_number: bytes


def read_properties(property_values: Mapping[bytes, bytes], path: str, offset: int) -> TableProperties:
    """Return the properties from the entries of the properties block at `offset` of the file `path`.

    Raises `SnapshotError` if a property is missing, and `UnsupportedError` for an unknown index type.
    """

    def content(name: str) -> EditReader:
        data = property_values.get(f"{PROPERTY_PREFIX}{name}".encode())
        if data is None:
            raise EditReader(b"", path, offset).error(f"an SST file lacks the property {name}")
        return EditReader(data, path, offset)

    def number(name: str) -> int:
        return content(name).varint()

    def is_set(name: str) -> bool:
        """Return whether a property of the index is set. Files of RocksDB 5.7 (Flink 1.7) lack these properties."""
        return f"{PROPERTY_PREFIX}{name}".encode() in property_values and number(name) != 0

    index_type = int.from_bytes(content("block.based.table.index.type").raw(4), "little")
    if index_type not in (_BINARY, _HASH, _PARTITIONED, _WITH_FIRST_KEYS):
        raise UnsupportedError(
            "an SST file has an unsupported index",
            path=path,
            found=f"index type {index_type}",
            advice=RESCALE_CANONICAL_SAVEPOINT,
        )
    return TableProperties(
        column_family=property_values.get(f"{PROPERTY_PREFIX}column.family.name".encode(), b"").decode(
            errors="replace"
        ),
        entry_count=number("num.entries"),
        index_size=number("index.size"),
        has_partitioned_index=index_type == _PARTITIONED,
        index_format=IndexFormat(
            has_user_keys=is_set("index.key.is.user.key"),
            is_delta_encoded=is_set("index.value.is.delta.encoded"),
            has_first_keys=index_type == _WITH_FIRST_KEYS,
        ),
        global_sequence=int.from_bytes(property_values.get(_GLOBAL_SEQUENCE, b""), "little"),
        session_id=property_values.get(f"{PROPERTY_PREFIX}{SESSION_PROPERTY}".encode(), b""),
        file_number=property_values.get(f"{PROPERTY_PREFIX}{_NUMBER_PROPERTY}".encode(), b""),
    )


_NUMERIC_PROPERTIES = {
    **dict.fromkeys(("column.family.id", "deleted.keys", "filter.size", "fixed.key.length", "format.version"), 0),
    **dict.fromkeys(("merge.operands", "num.data.blocks", "num.range-deletions"), 0),
    **dict.fromkeys(("index.key.is.user.key", "index.value.is.delta.encoded"), 1),
}
_TEXT_PROPERTIES = {
    "block.based.table.index.type": "\0\0\0\0",
    "block.based.table.prefix.filtering": "0",
    "block.based.table.whole.key.filtering": "1",
    "comparator": BYTEWISE,
    "prefix.extractor.name": "nullptr",
    "property.collectors": "[]",
}


def property_entries(numbers: Mapping[str, int], texts: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the property entries of a new file, sorted by name: the given ones, and those that all new files share."""
    property_values = {name: varint(number) for name, number in (_NUMERIC_PROPERTIES | dict(numbers)).items()}
    property_values |= {name: text.encode() for name, text in (_TEXT_PROPERTIES | dict(texts)).items()}
    return [(f"{PROPERTY_PREFIX}{name}".encode(), value) for name, value in sorted(property_values.items())]

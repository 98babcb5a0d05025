"""Reader of the records of a MANIFEST; each record is an edit of the database (`VersionEdit::EncodeTo`).

    { tag:varint32 value }*

The column family is one field of a record and may follow the files that belong to it, so a record must be read to its
end. RocksDB skips unknown tags that are marked as ignorable. This reader refuses every unknown tag, because it may
change what the rows mean, as blob files or keys with timestamps do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from rescale.rocksdb.manifest.edit_reader import EditReader, InternalKey

BYTEWISE = "leveldb.BytewiseComparator"

DELETION, VALUE, MERGE, RANGE_DELETION = 0, 1, 2, 15
"""RocksDB's `ValueType` of a deleted key, a value that was put, the operand of a merge, and a range tombstone."""

LARGEST_SEQUENCE = (1 << 56) - 1

ABOVE_ALL_SEQUENCES = LARGEST_SEQUENCE + 1


class Tag(IntEnum):
    """Tags of the fields of a `VersionEdit` (`Tag`)."""

    COMPARATOR = 1
    LOG_NUMBER = 2
    NEXT_FILE_NUMBER = 3
    LAST_SEQUENCE = 4
    COMPACT_CURSOR = 5
    DELETED_FILE = 6
    NEW_FILE = 7
    PREVIOUS_LOG_NUMBER = 9
    MIN_LOG_NUMBER_TO_KEEP = 10
    NEW_FILE_2 = 100
    NEW_FILE_3 = 102
    NEW_FILE_4 = 103
    COLUMN_FAMILY = 200
    COLUMN_FAMILY_ADD = 201
    COLUMN_FAMILY_DROP = 202
    MAX_COLUMN_FAMILY = 203
    IN_ATOMIC_GROUP = 300
    BLOB_FILE_ADDITION = 400
    BLOB_FILE_GARBAGE = 401
    DB_ID = 8193
    OLD_BLOB_FILE_ADDITION = 8194
    OLD_BLOB_FILE_GARBAGE = 8195
    FULL_HISTORY_TIMESTAMP_LOW = 8198
    WAL_ADDITION = 8199
    WAL_DELETION = 8200
    PERSIST_USER_DEFINED_TIMESTAMPS = 8201


class FileTag(IntEnum):
    """Tags of the fields of a file entry (`NewFileCustomTag`). A reader must not skip unknown tags with bit 64 set."""

    TERMINATE = 1
    NEED_COMPACTION = 2
    MIN_LOG_NUMBER_TO_KEEP = 3
    OLDEST_BLOB_FILE = 4
    OLDEST_ANCESTOR_TIME = 5
    CREATION_TIME = 6
    CHECKSUM = 7
    CHECKSUM_FUNCTION = 8
    TEMPERATURE = 9
    MIN_TIMESTAMP = 10
    MAX_TIMESTAMP = 11
    UNIQUE_ID = 12
    EPOCH_NUMBER = 13
    COMPENSATED_RANGE_DELETION_SIZE = 14
    TAIL_SIZE = 15
    TIMESTAMPS_PERSISTED = 16
    PATH_ID = 65


_BLOBS = "blob files"
_TIMESTAMPS = "keys with timestamps"
_OTHER_DIRECTORIES = "files in several directories"

_SKIPPED_NUMBER_TAGS = (
    Tag.LOG_NUMBER,
    Tag.PREVIOUS_LOG_NUMBER,
    Tag.MIN_LOG_NUMBER_TO_KEEP,
    Tag.MAX_COLUMN_FAMILY,
)
_SKIPPED_SLICE_TAGS = (Tag.DB_ID, Tag.WAL_ADDITION, Tag.WAL_DELETION)
_BLOB_TAGS = (
    Tag.BLOB_FILE_ADDITION,
    Tag.BLOB_FILE_GARBAGE,
    Tag.OLD_BLOB_FILE_ADDITION,
    Tag.OLD_BLOB_FILE_GARBAGE,
)


def table_name(number: int) -> str:
    """Return the name of the SST file with this number (`MakeTableFileName`)."""
    return f"{number:06d}.sst"


@dataclass(frozen=True)
class LiveFile:
    """MANIFEST entry of a live SST file of `size` bytes with keys from `smallest_key` to `largest_key`.

    `fields` are the other fields of the entry, as (`FileTag`, encoded value). RocksDB's class is `FileMetaData`.
    """

    level: int
    number: int
    size: int
    smallest_key: InternalKey
    largest_key: InternalKey
    smallest_sequence: int
    largest_sequence: int
    fields: tuple[tuple[int, bytes], ...] = ()

    @property
    def smallest_user_key(self) -> bytes:
        """User key of the smallest key."""
        return self.smallest_key.user_key

    @property
    def largest_user_key(self) -> bytes:
        """User key of the largest key."""
        return self.largest_key.user_key

    @property
    def is_largest_exclusive(self) -> bool:
        """Whether `largest_key` is the exclusive end of a range tombstone, so that no row of the file has this key."""
        return self.largest_key[1:] == (LARGEST_SEQUENCE, RANGE_DELETION)

    @property
    def epoch(self) -> int | None:
        """Epoch number, which orders the files of a column family by age; None if unknown (`kUnknownEpochNumber`)."""
        return self.number_in(FileTag.EPOCH_NUMBER) or None

    def number_in(self, tag: FileTag) -> int | None:
        """Return the number in one of the `fields`; None if the entry lacks the field."""
        value = dict(self.fields).get(tag)
        return None if value is None else EditReader(value, self.name, 0).varint()

    @property
    def name(self) -> str:
        return table_name(self.number)


class DeletedFile(NamedTuple):
    """Level and number of an SST file that an edit removes from the live files."""

    level: int
    number: int


@dataclass
class VersionEdit:
    """Decoded record at `offset` of the MANIFEST; a field that the record lacks has its default value.

    `added_family` is the name of a new column family, `is_dropped` says whether the column family is dropped, and
    `edits_left_in_group` counts the edits of the same atomic group that follow.
    """

    offset: int
    column_family: int = 0
    added_family: str | None = None
    is_dropped: bool = False
    next_file_number: int | None = None
    last_sequence: int | None = None
    edits_left_in_group: int | None = None
    deleted_files: list[DeletedFile] = field(default_factory=list)
    added_files: list[LiveFile] = field(default_factory=list)


def read_version_edit(payload: bytes, path: str, offset: int) -> VersionEdit:
    """Decode the record `payload`, which begins at `offset` of the MANIFEST at `path`.

    Raises `SnapshotError` if it is damaged, and `UnsupportedError` for unsupported features.
    """
    reader = EditReader(payload, path, offset)
    edit = VersionEdit(offset)
    while reader.remaining:
        _read_field(reader, edit)
    return edit


def _read_field(reader: EditReader, edit: VersionEdit) -> None:
    match tag := reader.varint32():
        case Tag.COMPARATOR:
            if (name := reader.name()) != BYTEWISE:
                raise reader.refusal("a comparator other than Flink's", found=name)
        case Tag.NEXT_FILE_NUMBER:
            edit.next_file_number = reader.varint()
        case Tag.LAST_SEQUENCE:
            edit.last_sequence = reader.varint()
        case Tag.DELETED_FILE:
            edit.deleted_files.append(DeletedFile(reader.varint32(), reader.varint()))
        case Tag.NEW_FILE_2 | Tag.NEW_FILE_3 | Tag.NEW_FILE_4:
            edit.added_files.append(_read_file(reader, tag))
        case Tag.COLUMN_FAMILY:
            edit.column_family = reader.varint32()
        case Tag.COLUMN_FAMILY_ADD:
            edit.added_family = reader.name()
        case Tag.COLUMN_FAMILY_DROP:
            edit.is_dropped = True
        case Tag.IN_ATOMIC_GROUP:
            edit.edits_left_in_group = reader.varint32()
        case _:
            _skip_field(reader, tag)


def _skip_field(reader: EditReader, tag: int) -> None:
    if tag in _SKIPPED_NUMBER_TAGS:
        reader.varint()
    elif tag in _SKIPPED_SLICE_TAGS:
        reader.slice()
    elif tag == Tag.COMPACT_CURSOR:
        reader.varint32()
        reader.internal_key()
    elif tag in _BLOB_TAGS:
        raise reader.refusal(_BLOBS, found=f"tag {tag}")
    elif tag == Tag.FULL_HISTORY_TIMESTAMP_LOW:
        if reader.slice():
            raise reader.refusal(_TIMESTAMPS, found=f"tag {tag}")
    elif tag == Tag.PERSIST_USER_DEFINED_TIMESTAMPS:
        if reader.slice() != b"\x01":
            raise reader.refusal(_TIMESTAMPS, found=f"tag {tag}")
    else:
        raise reader.refusal("an unknown field in its MANIFEST", found=f"tag {tag}")


def _read_file(reader: EditReader, tag: int) -> LiveFile:
    level, number = reader.varint32(), reader.varint()
    if tag == Tag.NEW_FILE_3 and reader.varint32():
        raise reader.refusal(_OTHER_DIRECTORIES)
    size = reader.varint()
    at = reader.position
    smallest_key, largest_key = reader.internal_key(), reader.internal_key()
    if smallest_key.user_key > largest_key.user_key:
        raise reader.error("the smallest key of a file is above its largest key", at=at, found=f"file {number}")
    smallest_sequence, largest_sequence = reader.varint(), reader.varint()
    fields = tuple(_file_fields(reader)) if tag == Tag.NEW_FILE_4 else ()
    return LiveFile(level, number, size, smallest_key, largest_key, smallest_sequence, largest_sequence, fields)


def _file_fields(reader: EditReader) -> Iterator[tuple[int, bytes]]:
    while (tag := reader.varint32()) != FileTag.TERMINATE:
        value = reader.slice()
        if tag == FileTag.OLDEST_BLOB_FILE:
            raise reader.refusal(_BLOBS, found=f"tag {tag} of a file")
        if tag in (FileTag.MIN_TIMESTAMP, FileTag.MAX_TIMESTAMP):
            raise reader.refusal(_TIMESTAMPS, found=f"tag {tag} of a file")
        if tag == FileTag.TIMESTAMPS_PERSISTED and value != b"\x01":
            raise reader.refusal(_TIMESTAMPS, found=f"tag {tag} of a file")
        if tag == FileTag.PATH_ID and value != b"\x00":
            raise reader.refusal(_OTHER_DIRECTORIES)
        if tag not in FileTag._value2member_map_:
            raise reader.refusal("an unknown field in its MANIFEST", found=f"tag {tag} of a file")
        yield tag, value

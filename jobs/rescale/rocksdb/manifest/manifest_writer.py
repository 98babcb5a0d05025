"""Writer of a MANIFEST that lists the live files of a database, without its history; `VersionSet::Recover` reads it.

Each column family takes two records: one adds the column family and one lists its files, since RocksDB ignores files in
a record that adds a column family. The next file number must be above the number of every file in the directory.
RocksDB would take files with higher numbers for leftovers of a crash, and delete them.
"""

from __future__ import annotations

from collections.abc import Iterator

from rescale.rocksdb.manifest.edit_writer import EditWriter
from rescale.rocksdb.manifest.log_framing import write_log
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest, read_manifest
from rescale.rocksdb.manifest.version_edit import BYTEWISE, FileTag, LiveFile, Tag


def write_current(manifest_name: str) -> bytes:
    """Return the content of CURRENT, with the newline that RocksDB requires."""
    return f"{manifest_name}\n".encode()


def write_manifest(manifest: Manifest, path: str) -> bytes:
    """Return the bytes of a MANIFEST, after a check that they read back as `manifest`; `path` names it in errors."""
    data = write_log(_records(manifest))
    if read_manifest(data, path) != manifest:
        raise AssertionError(f"{path} does not read back as it was written")
    return data


def _records(manifest: Manifest) -> Iterator[bytes]:
    largest_id = max(family.id for family in manifest.column_families)
    numbers = {Tag.NEXT_FILE_NUMBER: manifest.next_file_number, Tag.LAST_SEQUENCE: manifest.last_sequence}
    log_numbers = {Tag.LOG_NUMBER: 0, Tag.PREVIOUS_LOG_NUMBER: 0}
    yield _record_of_numbers({**log_numbers, **numbers, Tag.MAX_COLUMN_FAMILY: largest_id})
    for family in manifest.column_families:
        yield _record_of_added_family(family)
        yield _record_of_files(family)
    yield _record_of_numbers({Tag.LOG_NUMBER: 0, **numbers, Tag.MIN_LOG_NUMBER_TO_KEEP: 0})


def _record_of_numbers(numbers: dict[Tag, int]) -> bytes:
    writer = EditWriter()
    for tag, value in numbers.items():
        writer.varint(tag).varint(value)
    return writer.bytes()


def _record_of_added_family(family: ColumnFamily) -> bytes:
    writer = EditWriter()
    if family.id:
        writer.varint(Tag.COLUMN_FAMILY).varint(family.id)
        writer.varint(Tag.COLUMN_FAMILY_ADD).slice(family.name.encode())
    return writer.varint(Tag.COMPARATOR).slice(BYTEWISE.encode()).bytes()


def _record_of_files(family: ColumnFamily) -> bytes:
    writer = EditWriter()
    if family.id:
        writer.varint(Tag.COLUMN_FAMILY).varint(family.id)
    writer.varint(Tag.LOG_NUMBER).varint(0)
    for file in family.files:
        _write_file(writer, file)
    return writer.bytes()


def _write_file(writer: EditWriter, file: LiveFile) -> None:
    for number in (Tag.NEW_FILE_4, file.level, file.number, file.size):
        writer.varint(number)
    writer.internal_key(file.smallest_key).internal_key(file.largest_key)
    writer.varint(file.smallest_sequence).varint(file.largest_sequence)
    for tag, value in file.fields:
        writer.varint(tag).slice(value)
    writer.varint(FileTag.TERMINATE)

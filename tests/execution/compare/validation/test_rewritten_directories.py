"""Directories that RocksDB has rewritten, and directories that are neither rewritten nor made of the source's files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembly import assemble
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import internal_key
from rescale.rocksdb.manifest.version_edit import RANGE_DELETION, LiveFile
from rescale.rocksdb.sst.block_writer import BlockFile, write_entries, write_handle
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.sst.table_properties import PROPERTIES, RANGE_DELETIONS, property_entries
from rescale.snapshot.model import Snapshot
from support.small_directories import (
    HALVES,
    MAXIMUM,
    WrittenSnapshot,
    assembled,
    compared,
    deletion,
    directory,
    refused,
    rows,
    sources,
    thirds,
)


def test_directory_rewritten_within_its_key_groups_is_compared_by_records(
    source: WrittenSnapshot, result: WrittenSnapshot
) -> None:
    """A directory is compared by records, too, if it lacks a file that may have been merged, or has another file."""
    parts = [(0, 15, directory(rows(4, 0, 3), rows(5, 4, 7, 2), rows(6, 8, 15, 3)))]
    old = source.of(*parts)
    whole_files = assembled(parts, old, 8, 15)
    with_other_file = directory(rows(10, 0, 3), rows(11, 4, 7, 2), rows(12, 1, 2, 3))
    for other in (directory(rows(10, 0, 7)), directory(rows(10, 0, 3)), with_other_file):
        assert list(compared(old, result.of((0, 7, other), (8, 15, whole_files)))) == [1]
    assert list(compared(old, result.of((0, 7, assembled(parts, old, 0, 7)), (8, 15, whole_files)))) == [0, 1]


def test_foreign_file_with_rows_outside_of_the_key_groups_is_refused(
    source: WrittenSnapshot, result: WrittenSnapshot
) -> None:
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    file_and_data = file_claiming_rows(10, 0, 15, 1)
    database = directory(file_and_data[0], _000010=file_and_data[1])
    error = refused(
        old, result.of((0, 7, database), (8, 15, database)), "an SST file with rows does not belong to the source"
    )
    assert error.path is not None
    assert error.path.endswith("000010.sst")


def file_claiming_rows(
    number: int, first: int, behind: int, age: int, *, entry_count: int = 1, block_count: int = 1
) -> tuple[LiveFile, bytes]:
    """Return a file with one range tombstone, whose properties and index claim this many entries and blocks of rows."""
    key = internal_key(InternalKey(bytes([first]), age, RANGE_DELETION))
    file = BlockFile()
    handles = [file.add(write_entries([(key, b"value")])) for _ in range(block_count)]
    index_entries = [bytes((0, 1, 65 + i)) + write_handle(handle) for i, handle in enumerate(handles)]
    index = file.add(b"".join(index_entries) + (0).to_bytes(4, "little") + (1).to_bytes(4, "little"))
    range_block = file.add(write_entries([(key, bytes([behind]))]))
    number_properties = {"data.size": 0, "num.entries": entry_count, "index.size": index.size + TRAILER_SIZE}
    properties = file.add(
        write_entries(property_entries({**number_properties, "raw.key.size": 1, "raw.value.size": 1}, {}))
    )
    parts = {PROPERTIES: properties, RANGE_DELETIONS: range_block}
    meta_index = write_entries(((name, write_handle(handle)) for name, handle in parts.items()), stores_whole_keys=True)
    data = file.finish(file.add(meta_index), index)
    return replace(deletion(number, first, behind, age)[0], size=len(data)), data


@pytest.mark.parametrize(
    ("entry_count", "block_count", "is_sound"),
    [(1, 0, True), (2, 0, False), (0, 0, False), (1, 1, False), (1, 2, False)],
)
def test_file_with_a_deleted_range_must_have_no_rows(
    entry_count: int, block_count: int, source: WrittenSnapshot, result: WrittenSnapshot, *, is_sound: bool
) -> None:
    """Neither the properties nor the index of the file may mention rows."""
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    databases = []
    for first, last, hidden_range in ((0, 7, (8, 16)), (8, 15, (0, 8))):
        file, data = file_claiming_rows(11, *hidden_range, 2, entry_count=entry_count, block_count=block_count)
        databases.append(
            (first, last, directory(rows(10, 0, 15), file, _000011=data) | {"000010.sst": bytes((4, 0)) * 50})
        )
    new = result.of(*databases)
    if is_sound:
        assert [pair.deleted_range_count for pair in compared(old, new).values()] == [1, 1]
        return
    error = refused(old, new, "an SST file with rows does not belong to the source")
    assert (error.expected, error.found) == ("only 1 range tombstones", f"{entry_count} entries")


def test_unreadable_directory_of_the_result_is_refused(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    old = source.of(*HALVES)

    def spoilt_result(**changed_files: bytes | None) -> Snapshot:
        first, *others = thirds(old)
        files = {name: changed_files.get(name.partition("-")[0], data) for name, data in first[2].items()}
        return result.of((*first[:2], {name: data for name, data in files.items() if data is not None}), *others)

    def result_with(data: bytes | None) -> Snapshot:
        """Return the result with these bytes in place of a range tombstone."""
        first, *others = thirds(old)
        (name, *_) = (output.name for output in assemble([sources(old)[0]], KeyGroupRange(0, 5), MAXIMUM).new_files[2:])
        return result.of((*first[:2], first[2] | {name: data or b"x" * len(first[2][name])}), *others)

    assert compared(old, spoilt_result())
    for new in (
        spoilt_result(MANIFEST=b"what"),
        spoilt_result(CURRENT=None),
        spoilt_result(OPTIONS=b'[CFOptions "one"]\n  comparator=mine\n'),
        result_with(None),
    ):
        error = refused(old, new, "the result cannot be read back: ")
        assert error.path is not None
        assert error.path.startswith(str(result.folder)) or "OPTIONS" in error.path


def test_missing_sst_file_is_reported_with_its_operator(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    parts = [(0, 15, directory(rows(4, 0, 15), rows(5, 0, 15, 2, size=102)))]
    old = source.of(*parts)
    one_file_parts = [(0, 15, directory(rows(4, 0, 15)))]
    databases = [
        (first, first + 7, assembled(one_file_parts, source.of(*one_file_parts), first, first + 7)) for first in (0, 8)
    ]
    refused(old, result.of(*databases), "an SST file of a source is missing")

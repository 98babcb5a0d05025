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
    whole = assembled(parts, old, 8, 15)
    more = directory(rows(10, 0, 3), rows(11, 4, 7, 2), rows(12, 1, 2, 3))
    for other in (directory(rows(10, 0, 7)), directory(rows(10, 0, 3)), more):
        assert list(compared(old, result.of((0, 7, other), (8, 15, whole)))) == [1]
    assert list(compared(old, result.of((0, 7, assembled(parts, old, 0, 7)), (8, 15, whole)))) == [0, 1]


def test_foreign_file_with_rows_outside_of_the_key_groups_is_refused(
    source: WrittenSnapshot, result: WrittenSnapshot
) -> None:
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    sst = with_rows(10, 0, 15, 1)
    database = directory(sst[0], _000010=sst[1])
    error = refused(
        old, result.of((0, 7, database), (8, 15, database)), "an SST file with rows does not belong to the source"
    )
    assert error.path is not None
    assert error.path.endswith("000010.sst")


def with_rows(
    number: int, first: int, behind: int, age: int, *, entries: int = 1, blocks: int = 1
) -> tuple[LiveFile, bytes]:
    """Return a file with one range tombstone, whose properties and index claim this many entries and blocks of rows."""
    key = internal_key(InternalKey(bytes([first]), age, RANGE_DELETION))
    file = BlockFile()
    handles = [file.add(write_entries([(key, b"value")])) for _ in range(blocks)]
    entries_of_index = [bytes((0, 1, 65 + i)) + write_handle(handle) for i, handle in enumerate(handles)]
    index = file.add(b"".join(entries_of_index) + (0).to_bytes(4, "little") + (1).to_bytes(4, "little"))
    deleted = file.add(write_entries([(key, bytes([behind]))]))
    numbers = {"data.size": 0, "num.entries": entries, "index.size": index.size + TRAILER_SIZE}
    properties = file.add(write_entries(property_entries({**numbers, "raw.key.size": 1, "raw.value.size": 1}, {})))
    parts = {PROPERTIES: properties, RANGE_DELETIONS: deleted}
    named = write_entries(((name, write_handle(handle)) for name, handle in parts.items()), stores_whole_keys=True)
    data = file.finish(file.add(named), index)
    return replace(deletion(number, first, behind, age)[0], size=len(data)), data


@pytest.mark.parametrize(
    ("entries", "blocks", "sound"), [(1, 0, True), (2, 0, False), (0, 0, False), (1, 1, False), (1, 2, False)]
)
def test_file_with_a_deleted_range_must_have_no_rows(
    entries: int, blocks: int, source: WrittenSnapshot, result: WrittenSnapshot, *, sound: bool
) -> None:
    """Neither the properties nor the index of the file may mention rows."""
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    databases = []
    for first, last, hidden in ((0, 7, (8, 16)), (8, 15, (0, 8))):
        file, data = with_rows(11, *hidden, 2, entries=entries, blocks=blocks)
        databases.append(
            (first, last, directory(rows(10, 0, 15), file, _000011=data) | {"000010.sst": bytes((4, 0)) * 50})
        )
    new = result.of(*databases)
    if sound:
        assert [pair.deleted_range_count for pair in compared(old, new).values()] == [1, 1]
        return
    error = refused(old, new, "an SST file with rows does not belong to the source")
    assert (error.expected, error.found) == ("only 1 range tombstones", f"{entries} entries")


def test_unreadable_directory_of_the_result_is_refused(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    old = source.of(*HALVES)

    def spoilt(**changed: bytes | None) -> Snapshot:
        first, *others = thirds(old)
        files = {name: changed.get(name.partition("-")[0], data) for name, data in first[2].items()}
        return result.of((*first[:2], {name: data for name, data in files.items() if data is not None}), *others)

    def result_with(data: bytes | None) -> Snapshot:
        """Return the result with these bytes in place of a range tombstone."""
        first, *others = thirds(old)
        (name, *_) = (output.name for output in assemble([sources(old)[0]], KeyGroupRange(0, 5), MAXIMUM).new_files[2:])
        return result.of((*first[:2], first[2] | {name: data or b"x" * len(first[2][name])}), *others)

    assert compared(old, spoilt())
    for new in (
        spoilt(MANIFEST=b"what"),
        spoilt(CURRENT=None),
        spoilt(OPTIONS=b'[CFOptions "one"]\n  comparator=mine\n'),
        result_with(None),
    ):
        error = refused(old, new, "the result cannot be read back: ")
        assert error.path is not None
        assert error.path.startswith(str(result.folder)) or "OPTIONS" in error.path


def test_missing_sst_file_is_reported_with_its_operator(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    parts = [(0, 15, directory(rows(4, 0, 15), rows(5, 0, 15, 2, size=102)))]
    old = source.of(*parts)
    only = [(0, 15, directory(rows(4, 0, 15)))]
    databases = [(first, first + 7, assembled(only, source.of(*only), first, first + 7)) for first in (0, 8)]
    refused(old, result.of(*databases), "an SST file of a source is missing")

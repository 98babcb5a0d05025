"""Directories of a few small files each: which of their files are whole files of the source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.rocksdb.database_layout import OPTIONS_NAME
from support.small_directories import (
    HALVES,
    WrittenSnapshot,
    assembled,
    compared,
    contents,
    deletion,
    directory,
    refused,
    rows,
    thirds,
)


def test_directories_made_of_whole_files_list_the_files_left_to_compare(
    source: WrittenSnapshot, result: WrittenSnapshot
) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    directories = compared(old, new)
    assert list(directories) == [0, 1, 2]
    assert [
        (pair.subtask, pair.same_file_count, len(pair.copies), pair.deleted_range_count)
        for pair in directories.values()
    ] == [
        (0, 0, 3, 2),
        (1, 0, 4, 3),
        (2, 0, 1, 1),
    ]
    for directory_pair, options in zip(
        directories.values(), (b"# of the first\n", b"# of the first\n", b"# of the second\n"), strict=True
    ):
        assert [pair.name for pair in directory_pair.small_files] == [OPTIONS_NAME]
        assert contents(old, directory_pair.small_files[0].source) == options
        for pair in (*directory_pair.copies, *directory_pair.small_files):
            assert pair.subtask == directory_pair.subtask
            assert contents(old, pair.source) == contents(new, pair.result)


def test_options_file_is_compared_with_the_source_of_the_first_key_groups(
    source: WrittenSnapshot, result: WrittenSnapshot
) -> None:
    reversed_halves = HALVES[::-1]
    old = source.of(*reversed_halves)
    directories = compared(old, result.of((0, 15, assembled(reversed_halves, old, 0, 15))))
    assert contents(old, directories[0].small_files[0].source) == b"# of the first\n"


def test_options_file_that_no_source_has_is_refused(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    new_parts = [
        (first, first + 7, assembled([(0, 15, directory(rows(4, 0, 15)))], old, first, first + 7)) for first in (0, 8)
    ]
    assert compared(old, result.of(*new_parts))[1].small_files == ()
    new_parts[1][2][OPTIONS_NAME] = b"# of nobody\n"
    refused(old, result.of(*new_parts), "a database has an OPTIONS file, but no source has any")


def test_files_referred_to_in_the_source_are_not_compared(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    """Copies and files of the source may stand side by side in one directory."""
    parts = [(0, 15, directory(rows(4, 0, 7), rows(5, 8, 15, size=102), rows(6, 1, 2, size=104)))]
    old = source.of(*parts)
    (source_database,) = old.operators[0].databases
    for referred_count in range(4):
        uris = [old.files[file.extent.file][0] for file in source_database.files if file.name.endswith(".sst")][
            :referred_count
        ]
        extents = {}
        for name, data in assembled(parts, old, 0, 15).items():
            equal_uris = [uri for uri in uris if Path(uri).read_bytes() == data]
            extents[name] = result.refer(equal_uris[0]) if equal_uris else result.put(name, data)
        new = result.snapshot(result.listed(3, 0, 15, extents))
        (directory_pair,) = compared(old, new).values()
        assert (
            directory_pair.subtask,
            directory_pair.same_file_count,
            len(directory_pair.copies),
            directory_pair.deleted_range_count,
        ) == (3, referred_count, 3 - referred_count, 0)


@pytest.mark.parametrize("level", [0, 2])
def test_files_with_equal_key_ranges_are_told_apart_by_level_and_age(
    level: int, source: WrittenSnapshot, result: WrittenSnapshot
) -> None:
    """In level 2, the second file is the older one, although its number is higher."""
    first_file, second_file = (rows(number, 0, 15, 1) for number in (4, 5))
    parts = [(0, 15, directory(first_file, replace(second_file, level=level)))]
    old = source.of(*parts)
    new_parts = [(first, last, assembled(parts, old, first, last)) for first, last in ((0, 7), (8, 15))]
    new = result.of(*new_parts)
    for directory_pair in compared(old, new).values():
        assert len(directory_pair.copies) == 2
        for pair in directory_pair.copies:
            assert contents(old, pair.source) == contents(new, pair.result)


def test_directory_may_cover_more_key_groups_than_its_source(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    """Rows of the source's file in these key groups are dead and hidden; finding that out needs no read of rows."""
    parts = [(0, 3, directory(rows(4, 0, 5)))]
    old = source.of(*parts)
    (directory_pair,) = compared(old, result.of((0, 7, assembled(parts, old, 0, 7)))).values()
    assert (len(directory_pair.copies), directory_pair.deleted_range_count) == (1, 1)


def test_deleted_ranges_of_the_source_count_as_copied_files(source: WrittenSnapshot, result: WrittenSnapshot) -> None:
    range_file, data = deletion(5, 1, 3, 4)
    parts = [(0, 15, directory(rows(4, 0, 7), range_file, rows(6, 8, 15, 5), _000005=data))]
    old = source.of(*parts)
    new_parts = [(first, last, assembled(parts, old, first, last)) for first, last in ((0, 3), (4, 15))]
    directories = compared(old, result.of(*new_parts))
    assert [(len(pair.copies), pair.deleted_range_count) for pair in directories.values()] == [(2, 1), (2, 1)]

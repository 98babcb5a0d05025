"""Directories of a few small files each: which of them are whole files of the source, and what each fault ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rescale.errors import IntegrityError
from rescale.execution.validation import directories
from rescale.execution.validation.directories import WholeFiles, may_go_by_files, whole_files
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import read_keyed_header, write_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.assembly.assembly import assemble
from rescale.rocksdb.database_layout import MANIFEST_NAME, OPTIONS_NAME
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import internal_key
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.manifest.version_edit import LARGEST_SEQUENCE, RANGE_DELETION, VALUE, FileTag, LiveFile
from rescale.rocksdb.sst.block_writer import BlockFile, write_entries, write_handle
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.sst.table_properties import PROPERTIES, RANGE_DELETIONS, property_entries
from rescale.rocksdb.sst.tombstone import write_tombstone
from rescale.rocksdb.stored_files import CURRENT
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Database, DatabaseFile, Operator, Snapshot
from rescale.storage.store import Pin, open_store
from support.snapshot_bytes import LONG, VOID_NAMESPACE, keyed_header, keyed_state, parsed
from support.synthetic import operator, own_stream, snapshot

MAXIMUM = 16
HEADER = read_keyed_header(keyed_header(*map(keyed_state, ("one", "two"))), "")
Contents = Mapping[str, bytes]
"""Of the files of a directory, by name."""


def rows(number: int, first: int, last: int, age: int = 1, level: int = 0, size: int = 100) -> LiveFile:
    """A file with rows of the key groups from first to last."""
    keys = (InternalKey(bytes((group, 7)), age, VALUE) for group in (first, last))
    return LiveFile(level, number, size, *keys, age, age, ((FileTag.EPOCH_NUMBER, bytes([age])),))


def deletion(number: int, first: int, behind: int, age: int) -> tuple[LiveFile, bytes]:
    """A file that deletes all rows from a key group on, and before another one."""
    data = write_tombstone(bytes([first]), bytes([behind]), age, column_family=(1, "one"), created=1)
    keys = (
        InternalKey(bytes([first]), age, RANGE_DELETION),
        InternalKey(bytes([behind]), LARGEST_SEQUENCE, RANGE_DELETION),
    )
    return LiveFile(0, number, len(data), *keys, age, age, ((FileTag.EPOCH_NUMBER, bytes([age])),)), data


def directory(
    *one: LiveFile, two: Sequence[LiveFile] = (), options: bytes | None = None, seed: int = 0, **data: bytes
) -> dict[str, bytes]:
    """Of the files of two states; what those hold that `data` does not give depends on number and seed."""
    families = (
        ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ()),
        ColumnFamily(1, "one", tuple(sorted(one, key=lambda file: (file.level, file.number)))),
        ColumnFamily(2, "two", tuple(two)),
    )
    files = {file.name: bytes([file.number, seed]) * (file.size // 2) for file in (*one, *two)}
    files |= {name.replace("_", "") + ".sst": content for name, content in data.items()}
    files |= {
        CURRENT: write_current(MANIFEST_NAME),
        MANIFEST_NAME: write_manifest(Manifest(families, 200, 900), MANIFEST_NAME),
    }
    return files if options is None else {**files, "OPTIONS-000006": options}


@dataclass
class Side:
    """A snapshot that is written file by file; file 0 is `_metadata`."""

    folder: Path
    files: list[tuple[str, Pin]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.files.append((str(self.folder / "_metadata"), Pin(9)))

    def put(self, name: str, data: bytes) -> Extent:
        path = self.folder / f"{len(self.files)}-{name}"
        path.write_bytes(data)
        return self.refer(str(path))

    def refer(self, uri: str) -> Extent:
        pin = open_store(uri).stat(uri)
        assert pin is not None
        self.files.append((uri, pin))
        return Extent(len(self.files) - 1, 0, pin.size)

    def database(self, subtask: int, first: int, last: int, contents: Contents) -> Database:
        return self.listed(subtask, first, last, {name: self.put(name, data) for name, data in contents.items()})

    def listed(self, subtask: int, first: int, last: int, extents: Mapping[str, Extent]) -> Database:
        header = write_keyed_header(HEADER)
        files = tuple(DatabaseFile(name, extent) for name, extent in extents.items())
        return Database(subtask, KeyGroupRange(first, last), self.put("states", header), header, HEADER, files)

    def snapshot(self, *databases: Database, others: Sequence[Operator] = ()) -> Snapshot:
        """At as many subtasks as have a directory; `others` come before."""
        one = operator("op", len(databases), MAXIMUM, databases=databases)
        return replace(snapshot(*others, one), directory=str(self.folder), files=tuple(self.files))

    def of(self, *parts: tuple[int, int, Contents]) -> Snapshot:
        return self.snapshot(*(self.database(i, *part) for i, part in enumerate(parts)))


@pytest.fixture
def source(tmp_path: Path) -> Side:
    return Side(tmp_path / "source")


@pytest.fixture
def result(tmp_path: Path) -> Side:
    return Side(tmp_path / "result")


HALVES = (
    (0, 7, directory(rows(4, 0, 7, 3), rows(5, 2, 4, 4), two=[rows(6, 1, 6, 5)], options=b"# of the first\n")),
    (8, 15, directory(rows(4, 8, 15, 3, size=102), two=[rows(5, 9, 9, 4)], options=b"# of the second\n", seed=1)),
)


def sources(of: Snapshot) -> list[SourceDatabase]:
    (one,) = (one for one in with_tables(of).operators if one.databases)
    found = [database.source for database in one.databases]
    return [source for source in found if source is not None]


def assembled(parts: Sequence[tuple[int, int, Contents]], of: Snapshot, first: int, last: int) -> dict[str, bytes]:
    """The directory of these key groups, made of the source's with these parts."""
    own = KeyGroupRange(first, last)
    chosen = [
        (one, part) for one, part in zip(sources(of), parts, strict=True) if len(one.key_groups.intersection(own))
    ]
    made = assemble([one for one, _ in chosen], own, MAXIMUM)
    files = {one.name: chosen[one.source][1][2][one.source_name] for one in made.taken}
    return files | {one.name: one.data for one in made.made}


def thirds(old: Snapshot) -> list[tuple[int, int, dict[str, bytes]]]:
    """Of the halves."""
    owns = [key_group_range(MAXIMUM, 3, subtask) for subtask in range(3)]
    return [(own.first, own.last, assembled(HALVES, old, own.first, own.last)) for own in owns]


def compared(old: Snapshot, new: Snapshot) -> dict[int, WholeFiles]:
    *_, found = whole_files(old, new)
    return found


def contents(of: Snapshot, extent: Extent) -> bytes:
    return Path(of.files[extent.file][0]).read_bytes()


def test_directories_of_whole_files_are_told_by_what_is_left_to_compare(source: Side, result: Side) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    found = compared(old, new)
    assert list(found) == [0, 1, 2]
    assert [(one.subtask, one.same, len(one.copies), one.deleted_ranges) for one in found.values()] == [
        (0, 0, 3, 2),
        (1, 0, 4, 3),
        (2, 0, 1, 1),
    ]
    for one, options in zip(
        found.values(), (b"# of the first\n", b"# of the first\n", b"# of the second\n"), strict=True
    ):
        assert [pair.name for pair in one.small] == [OPTIONS_NAME]
        assert contents(old, one.small[0].source) == options
        for pair in (*one.copies, *one.small):
            assert pair.subtask == one.subtask
            assert contents(old, pair.source) == contents(new, pair.result)


def test_options_are_those_of_the_first_key_groups(source: Side, result: Side) -> None:
    """Wherever their directory stands."""
    turned = HALVES[::-1]
    old = source.of(*turned)
    found = compared(old, result.of((0, 15, assembled(turned, old, 0, 15))))
    assert contents(old, found[0].small[0].source) == b"# of the first\n"


def test_options_that_no_source_has_are_found(source: Side, result: Side) -> None:
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    made = [
        (first, first + 7, assembled([(0, 15, directory(rows(4, 0, 15)))], old, first, first + 7)) for first in (0, 8)
    ]
    assert compared(old, result.of(*made))[1].small == ()
    made[1][2][OPTIONS_NAME] = b"# of nobody\n"
    refused(old, result.of(*made), "a database has OPTIONS that no source has")


def refused(old: Snapshot, new: Snapshot, said: str) -> IntegrityError:
    with pytest.raises(IntegrityError, match=said) as caught:
        whole_files(old, new)
    assert caught.value.operator == "op"
    return caught.value


def test_files_where_they_lie_are_the_sources_own(source: Side, result: Side) -> None:
    """And others are copies, side by side in one directory."""
    parts = [(0, 15, directory(rows(4, 0, 7), rows(5, 8, 15, size=102), rows(6, 1, 2, size=104)))]
    old = source.of(*parts)
    (theirs,) = old.operators[0].databases
    for same in range(4):
        uris = [old.files[file.extent.file][0] for file in theirs.files if file.name.endswith(".sst")][:same]
        extents = {}
        for name, data in assembled(parts, old, 0, 15).items():
            there = [one for one in uris if Path(one).read_bytes() == data]
            extents[name] = result.refer(there[0]) if there else result.put(name, data)
        new = result.snapshot(result.listed(3, 0, 15, extents))
        (found,) = compared(old, new).values()
        assert (found.subtask, found.same, len(found.copies), found.deleted_ranges) == (3, same, 3 - same, 0)


# What is looked through, and what is not.


def canonical(maximum: int) -> Operator:
    return operator("op", 2, maximum, keyed=tuple(own_stream(i, 2, maximum, Framing.CANONICAL) for i in range(2)))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """Which snapshots are looked through."""
    looked: list[Snapshot] = []

    def looking(of: Snapshot, *more: Any) -> Snapshot:
        looked.append(of)
        return with_tables(of, *more)

    monkeypatch.setattr(directories, "with_tables", looking)
    return looked


def test_what_stays_as_it_is_is_not_looked_through(source: Side, result: Side, looks: list[Snapshot]) -> None:
    """Nor where other operators go by records."""
    changes = canonical(MAXIMUM), canonical(2 * MAXIMUM)
    old, new = (
        side.snapshot(*(side.database(i, *part) for i, part in enumerate(HALVES)), others=[other])
        for side, other in zip((source, result), changes, strict=True)
    )
    other, found = whole_files(old, new)
    assert other == {}
    assert [(one.subtask, one.same, len(one.copies), one.deleted_ranges) for one in found.values()] == [
        (0, 0, 3, 0),
        (1, 0, 2, 0),
    ]
    for one in found.values():
        small = [pair.name for pair in one.small]
        assert small == [f"the states of subtask {one.subtask}", CURRENT, MANIFEST_NAME, "OPTIONS-000006"]
    assert looks == []


def test_only_what_was_not_looked_through_before_is(source: Side, result: Side, looks: list[Snapshot]) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    expected = whole_files(old, new)
    assert looks == [old, new]
    seen = with_tables(old)
    assert whole_files(seen, new) == expected
    assert looks == [old, new, new]
    databases = seen.operators[0].databases
    some = replace(
        seen, operators=(replace(seen.operators[0], databases=(databases[0], old.operators[0].databases[1])),)
    )
    assert whole_files(some, new) == expected
    assert looks == [old, new, new, some, new]


def test_what_nobody_has_looked_through_is_a_fault_of_ours(
    source: Side, result: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    monkeypatch.setattr(directories, "with_tables", lambda of, *_: of)
    with pytest.raises(ValueError, match="the directory of subtask 0 was not looked through"):
        whole_files(old, new)


def test_directories_stay_directories_where_nothing_else_changes() -> None:
    """In whatever shape."""
    owns = (Database(i, key_group_range(MAXIMUM, 2, i), Extent(1, 0, 0), b"", None, ()) for i in range(2))
    old = operator("op", 2, MAXIMUM, databases=tuple(owns))
    service = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))
    raw = replace(own_stream(0, 1, MAXIMUM, Framing.RAW), services=(service,))
    with_timers = replace(old, raw_keyed=(raw,))
    assert may_go_by_files(old, old)
    assert may_go_by_files(old, replace(old, databases=old.databases[:1]))
    assert may_go_by_files(with_timers, with_timers)
    assert may_go_by_files(old, with_timers)
    assert not may_go_by_files(old, operator("op", 2, 2 * MAXIMUM, databases=old.databases))
    assert not may_go_by_files(old, canonical(MAXIMUM))
    assert not may_go_by_files(canonical(MAXIMUM), canonical(MAXIMUM))
    assert not may_go_by_files(replace(old, left_out=frozenset({"one"})), old)
    assert not may_go_by_files(with_timers, old)


def test_operators_that_become_directories_go_by_records(source: Side, result: Side) -> None:
    """Beside one that is made of whole files; so do those with other key groups."""
    old = source.of(*HALVES)
    made = thirds(old)
    directories = tuple(result.database(i, *part) for i, part in enumerate(made))
    before, after = canonical(MAXIMUM), operator("becomes", 3, MAXIMUM, databases=directories)
    assert not may_go_by_files(before, after)
    other = operator("moves", 2, 2 * MAXIMUM, databases=old.operators[0].databases)
    assert not may_go_by_files(other, after)
    old = replace(old, operators=(before, other, *old.operators))
    new = result.snapshot(*directories, others=[after, after])
    assert [list(found) for found in whole_files(old, new)] == [[], [], [0, 1, 2]]


# What RocksDB has rewritten, and what is neither that nor whole files.


def test_what_is_rewritten_within_its_key_groups_goes_by_records(source: Side, result: Side) -> None:
    """So does what lacks a file that may have been taken up in another one, or has one more."""
    parts = [(0, 15, directory(rows(4, 0, 3), rows(5, 4, 7, 2), rows(6, 8, 15, 3)))]
    old = source.of(*parts)
    whole = assembled(parts, old, 8, 15)
    more = directory(rows(10, 0, 3), rows(11, 4, 7, 2), rows(12, 1, 2, 3))
    for other in (directory(rows(10, 0, 7)), directory(rows(10, 0, 3)), more):
        assert list(compared(old, result.of((0, 7, other), (8, 15, whole)))) == [1]
    assert list(compared(old, result.of((0, 7, assembled(parts, old, 0, 7)), (8, 15, whole)))) == [0, 1]


@pytest.mark.parametrize("level", [0, 2])
def test_files_that_look_the_same_are_told_apart_by_level_and_age(level: int, source: Side, result: Side) -> None:
    """The older one has the higher number, where it lies deeper."""
    one, other = (rows(number, 0, 15, 1) for number in (4, 5))
    parts = [(0, 15, directory(one, replace(other, level=level)))]
    old = source.of(*parts)
    made = [(first, last, assembled(parts, old, first, last)) for first, last in ((0, 7), (8, 15))]
    new = result.of(*made)
    for found in compared(old, new).values():
        assert len(found.copies) == 2
        for pair in found.copies:
            assert contents(old, pair.source) == contents(new, pair.result)


def test_a_directory_may_speak_for_more_key_groups_than_its_source(source: Side, result: Side) -> None:
    """What the source's file holds of these is dead, and hidden: no rows are to be read for that."""
    parts = [(0, 3, directory(rows(4, 0, 5)))]
    old = source.of(*parts)
    (found,) = compared(old, result.of((0, 7, assembled(parts, old, 0, 7)))).values()
    assert (len(found.copies), found.deleted_ranges) == (1, 1)


def test_deleted_ranges_of_the_source_are_files_like_others(source: Side, result: Side) -> None:
    deleted, data = deletion(5, 1, 3, 4)
    parts = [(0, 15, directory(rows(4, 0, 7), deleted, rows(6, 8, 15, 5), _000005=data))]
    old = source.of(*parts)
    made = [(first, last, assembled(parts, old, first, last)) for first, last in ((0, 3), (4, 15))]
    found = compared(old, result.of(*made))
    assert [(len(one.copies), one.deleted_ranges) for one in found.values()] == [(2, 1), (2, 1)]


def test_a_file_of_nobody_that_reaches_out_is_found(source: Side, result: Side) -> None:
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    sst = with_rows(10, 0, 15, 1)
    made = directory(sst[0], _000010=sst[1])
    error = refused(old, result.of((0, 7, made), (8, 15, made)), "an SST file that has rows is none of the source's")
    assert error.path is not None
    assert error.path.endswith("000010.sst")


def with_rows(
    number: int, first: int, behind: int, age: int, *, entries: int = 1, blocks: int = 1
) -> tuple[LiveFile, bytes]:
    """As a file with one deleted range, and with so many entries, as far as it says so, in so many blocks."""
    key = internal_key(InternalKey(bytes([first]), age, RANGE_DELETION))
    file = BlockFile()
    handles = [file.add(write_entries([(key, b"value")])) for _ in range(blocks)]
    written = [bytes((0, 1, 65 + i)) + write_handle(handle) for i, handle in enumerate(handles)]
    index = file.add(b"".join(written) + (0).to_bytes(4, "little") + (1).to_bytes(4, "little"))
    deleted = file.add(write_entries([(key, bytes([behind]))]))
    numbers = {"data.size": 0, "num.entries": entries, "index.size": index.size + TRAILER_SIZE}
    properties = file.add(write_entries(property_entries({**numbers, "raw.key.size": 1, "raw.value.size": 1}, {})))
    parts = {PROPERTIES: properties, RANGE_DELETIONS: deleted}
    named = write_entries(((name, write_handle(handle)) for name, handle in parts.items()), whole_keys=True)
    data = file.finish(file.add(named), index)
    return replace(deletion(number, first, behind, age)[0], size=len(data)), data


@pytest.mark.parametrize(
    ("entries", "blocks", "sound"), [(1, 0, True), (2, 0, False), (0, 0, False), (1, 1, False), (1, 2, False)]
)
def test_what_hides_rows_has_none(entries: int, blocks: int, source: Side, result: Side, *, sound: bool) -> None:
    """By its own word, and by its index."""
    old = source.of((0, 15, directory(rows(4, 0, 15))))
    made = []
    for first, last, hidden in ((0, 7, (8, 16)), (8, 15, (0, 8))):
        file, data = with_rows(11, *hidden, 2, entries=entries, blocks=blocks)
        made.append((first, last, directory(rows(10, 0, 15), file, _000011=data) | {"000010.sst": bytes((4, 0)) * 50}))
    new = result.of(*made)
    if sound:
        assert [one.deleted_ranges for one in compared(old, new).values()] == [1, 1]
        return
    error = refused(old, new, "an SST file that has rows is none of the source's")
    assert (error.expected, error.found) == ("1 deleted ranges and nothing else", f"{entries} entries")


def test_what_cannot_be_read_back_is_told(source: Side, result: Side) -> None:
    old = source.of(*HALVES)

    def spoilt(**changed: bytes | None) -> Snapshot:
        first, *others = thirds(old)
        files = {name: changed.get(name.partition("-")[0], data) for name, data in first[2].items()}
        return result.of((*first[:2], {name: data for name, data in files.items() if data is not None}), *others)

    def made(data: bytes | None) -> Snapshot:
        """With these bytes in the place of a deleted range."""
        first, *others = thirds(old)
        (name, *_) = (one.name for one in assemble([sources(old)[0]], KeyGroupRange(0, 5), MAXIMUM).made[2:])
        return result.of((*first[:2], first[2] | {name: data or b"x" * len(first[2][name])}), *others)

    assert compared(old, spoilt())
    for new in (
        spoilt(MANIFEST=b"what"),
        spoilt(CURRENT=None),
        spoilt(OPTIONS=b'[CFOptions "one"]\n  comparator=mine\n'),
        made(None),
    ):
        error = refused(old, new, "the result cannot be read back: ")
        assert error.path is not None
        assert error.path.startswith(str(result.folder)) or "OPTIONS" in error.path


def test_a_file_that_is_missing_is_told_of_its_operator(source: Side, result: Side) -> None:
    parts = [(0, 15, directory(rows(4, 0, 15), rows(5, 0, 15, 2, size=102)))]
    old = source.of(*parts)
    only = [(0, 15, directory(rows(4, 0, 15)))]
    made = [(first, first + 7, assembled(only, source.of(*only), first, first + 7)) for first in (0, 8)]
    refused(old, result.of(*made), "an SST file of a source is missing")

"""Pins: a checkpoint is read from its pins after Flink has deleted its own files, and only new files are pinned."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.runstate.follower.pins import PinnedCheckpoint, Pins
from rescale.runstate.places import follower_place, pins_place, rounds_place
from rescale.runstate.removal import discard
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.databases.unshared_tables import tables_in_between
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.contract import Entry
from rescale.storage.locations import contains, join, name, parent
from rescale.storage.store import open_store
from rescale.text.errors import RescaleError, SnapshotError
from support.checkpoints import Checkpoints, checkpoints_in
from support.s3 import new_home, unprotected_store

FIXTURE = "2-rocksdb-incremental"


@pytest.fixture(params=["local", "s3"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_home(request.param, request, tmp_path / "home", "target.rescale")


@pytest.fixture
def job(home: str, tmp_path: Path) -> Checkpoints:
    return checkpoints_in(FIXTURE, join(home, "job"), tmp_path / "scratch")


def pins_of(job: Checkpoints, home: str) -> Pins:
    return Pins(join(home, "target"), job.directory)


def sizes_by_uri(place: str) -> dict[str, int]:
    return {entry.uri: entry.size for entry in open_store(place).list(place)}


def content_of(pinned: PinnedCheckpoint) -> list[tuple[str, bytes]]:
    """Return label and bytes of every RocksDB file of the pinned snapshot, after checking that all files are pins."""
    snapshot = open_snapshot(pinned.directory, moves=pinned.moves)
    snapshot.check_complete()
    assert all(contains(parent(pinned.directory), uri) for uri, _ in snapshot.files)
    return [
        (f"{operator.label} {file.name}", snapshot.contents.read(file.extent))
        for operator in snapshot.operators
        for database in operator.databases
        for file in database.files
    ]


def test_pinned_checkpoint_is_read_after_its_own_files_are_deleted(job: Checkpoints, home: str) -> None:
    before = open_snapshot(job.newest)
    pinned = pins_of(job, home).pin(job.number)
    job.delete()
    assert content_of(pinned)
    assert open_snapshot(pinned.directory, moves=pinned.moves).metadata_sha256 == before.metadata_sha256
    assert pins_of(job, home).newest() == pinned


def test_truncated_pin_is_refused_with_its_path(job: Checkpoints, home: str) -> None:
    """The file is shorter than its handle says, which shows before the file is read."""
    pinned = pins_of(job, home).pin(job.number)
    job.delete()
    store = unprotected_store(home)
    pins = [entry for entry in store.list(pins_of(job, home).directory) if name(entry.uri) != "_metadata"]
    assert pins
    for entry in pins:
        content = store.read_all(entry.uri, 1 << 30)[0]
        store.delete([entry.uri])
        store.put(entry.uri, content[:-1])
        with pytest.raises(RescaleError) as caught:
            content_of(pinned)
        assert caught.value.path == entry.uri
        store.put(entry.uri, content)
    assert content_of(pinned)


def test_second_pinned_checkpoint_pins_only_new_files(job: Checkpoints, home: str) -> None:
    pins = pins_of(job, home)
    pins.pin(job.number)
    first_sizes = sizes_by_uri(pins.directory)
    job.copy_newest(job.number + 1)
    pins.pin(job.number)
    directories_added_to = {name(parent(uri)) for uri in sizes_by_uri(pins.directory).keys() - first_sizes.keys()}
    assert directories_added_to == {f"chk-{job.number}"}


class NeverSearched(tuple[str, ...]):
    """Paths of missing files, which fail if they are searched one by one.

    All files of a large checkpoint may be missing; a search of the paths for each file would take hours.
    """

    def __contains__(self, _: object) -> bool:
        raise AssertionError("the missing files are searched from the first one on")


def with_compacted_tables(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the first file of each directory marked as written by a compaction."""

    def with_compacted_table(database: Database) -> Database:
        first, *others = database.tables
        return replace(database, tables=(first._replace(file=replace(first.file, level=1)), *others))

    return replace(
        snapshot,
        operators=tuple(
            replace(operator, databases=tuple(map(with_compacted_table, operator.databases)))
            for operator in with_tables(snapshot).operators
        ),
    )


def test_only_flushed_files_of_checkpoints_in_between_are_pinned(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescale.runstate.follower.pins.with_tables", with_compacted_tables)
    before, pins = with_compacted_tables(open_snapshot(job.newest)), pins_of(job, home)
    tables = [table for operator in before.operators for database in operator.databases for table in database.tables]
    compacted_names = {name(before.files[table.extent.file][0]) for table in tables if table.file.level > 0}
    pins.pin_flushed(job.number)
    job.delete()
    assert (pins.checkpoint_numbers(), pins.flushed_numbers()) == ([], [job.number])
    snapshot = pins.open_flushed(job.number)
    assert {name(uri) for uri in snapshot.missing_files} == compacted_names
    for operator, earlier in zip(snapshot.operators, before.operators, strict=True):
        for flushed, database in zip(operator.databases, earlier.databases, strict=True):
            tables = {table for table, _, _ in tables_in_between([(snapshot, flushed)], snapshot, flushed)}
            assert tables == {table.file.name for table in database.tables if table.file.level == 0}
            guarded_snapshot = replace(snapshot, missing_files=NeverSearched(snapshot.missing_files))
            assert tables == {
                table for table, _, _ in tables_in_between([(guarded_snapshot, flushed)], snapshot, flushed)
            }
    pins.remove_all_but([], [job.number])
    assert pins.open_flushed(job.number).missing_files == snapshot.missing_files
    pins.remove_all_but([])
    assert not sizes_by_uri(pins.directory)


def test_no_shared_pin_is_listed_to_find_the_pinned_checkpoints(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower looks every second, and there may be a hundred thousand shared pins."""
    pins, store = pins_of(job, home), open_store(home)
    pins.pin_flushed(3)
    list_files, listed_uris = store.list, list[str]()

    def list_and_record(_: object, directory: str, prefix: str = "") -> list[Entry]:
        entries = list_files(directory, prefix)
        listed_uris.extend(entry.uri for entry in entries)
        return entries

    monkeypatch.setattr(type(store), "list", list_and_record)
    assert (pins.checkpoint_numbers(), pins.flushed_numbers()) == ([], [3])
    assert listed_uris
    assert all(contains(join(pins.directory, "chk-3"), uri) for uri in listed_uris)


def test_checkpoint_with_a_missing_file_is_not_pinned(job: Checkpoints, home: str) -> None:
    """Once the file is back, the checkpoint is pinned.

    The next checkpoint is pinned by the same pins, although the shared files are missing by then.
    """
    pins = pins_of(job, home)
    shared_uris = job.shared()
    job.hide(shared_uris[-1])
    with pytest.raises(SnapshotError):
        pins.pin(job.number)
    assert pins.newest() is None
    job.show(shared_uris[-1])
    pins.pin(job.number)
    job.copy_newest(job.number + 1)
    for uri in shared_uris:
        job.hide(uri)
    assert content_of(pins.pin(job.number))


def test_files_outside_the_directory_of_the_job_are_pinned(job: Checkpoints, home: str) -> None:
    """After a restore from a savepoint, a checkpoint may still use some files of the savepoint."""
    savepoint = join(home, "savepoint")
    job.move_shared_to(savepoint)
    pins = Pins(join(home, "target"), job.directory, (savepoint,))
    pinned = pins.pin(job.number)
    assert len(pinned.moves) == 2
    unprotected_store(home).delete([*sizes_by_uri(savepoint)])
    assert content_of(pinned)
    assert pins.newest() == pinned


def test_pins_of_other_checkpoints_are_removed(job: Checkpoints, home: str) -> None:
    pins = pins_of(job, home)
    first_pinned = pins.pin(job.number)
    job.copy_newest(job.number + 1)
    pins.pin(job.number)
    kept_uris = {uri for uri, _ in open_snapshot(first_pinned.directory, moves=first_pinned.moves).files}
    pins.remove_all_but([first_pinned.checkpoint])
    assert sizes_by_uri(pins.directory).keys() == kept_uris
    assert pins.newest() == first_pinned


def test_discard_removes_pins_rounds_and_the_document_of_the_follower(job: Checkpoints, home: str) -> None:
    pins = pins_of(job, home)
    pins.pin(job.number)
    store = open_store(pins.target)
    for place in (follower_place(pins.target), join(rounds_place(pins.target), "3/_metadata")):
        store.put(place, b"{}")
    documents = sizes_by_uri(f"{pins.target}.rescale")
    assert sorted(discard(pins.target).removed) == sorted(documents)
    assert not sizes_by_uri(f"{pins.target}.rescale")
    assert not Path(f"{pins.target}.rescale").exists(), "no empty directory stays"


def test_pin_of_a_local_file_is_a_hard_link(tmp_path: Path) -> None:
    job = checkpoints_in(FIXTURE, str(tmp_path / "job"), tmp_path / "scratch")
    pins_of(job, str(tmp_path)).pin(job.number)
    for uri in job.shared():
        assert Path(uri).stat().st_nlink == 2
    shutil.rmtree(pins_place(str(tmp_path / "target")))
    assert all(Path(uri).stat().st_nlink == 1 for uri in job.shared())

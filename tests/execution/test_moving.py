"""State is moved in parts by many tasks, with the same bytes however it is divided, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.execution.steps import reshuffle_keyed_state, validate_coverage, validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.storage import store as stores
from rescale.storage.locations import join, name
from rescale.storage.store import open_store
from rescale.text.errors import SnapshotError
from support import snapshots
from support.faults import WRITES, Faults, FaultyStore
from support.pipeline import execute, execute_without_spark, move, plan_rescale, shared_processes
from support.results import files_of, remove, unpublish
from support.s3 import new_home, put_files, unprotected_store
from support.slow import slow

MIB = 1024 * 1024
SAVEPOINT_BYTES, PART_SIZE, PART_COUNT = 12 * MIB, 5 * MIB, 3
"""S3 takes no part below 5 MiB, except the last."""

locally_and_on_s3 = pytest.mark.parametrize("base_uri", ["local", "s3"], indirect=True)
"""Decorator of a test that always runs both locally and on S3; other tests run on S3 only as slow tests."""


@pytest.fixture(params=["local", slow("s3")])
def base_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_home(request.param, request, tmp_path)


@pytest.fixture(scope="module")
def large_savepoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a savepoint of 12 MiB in four files."""
    directory = tmp_path_factory.mktemp("large") / "savepoint"
    write_savepoint(directory, SAVEPOINT_BYTES, value_size=10_000)
    return directory


@pytest.fixture
def source(base_uri: str, large_savepoint: Path) -> str:
    return put_files(large_savepoint, join(base_uri, "source"))


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", PART_SIZE)


@pytest.fixture
def new_state_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """Return a function that lists this process's writes to state files since its last call, as `verb name`."""
    log = tmp_path / "calls"
    for factory_name, make in (("_local", stores._local), ("_s3", stores._s3)):
        monkeypatch.setattr(stores, factory_name, lambda make=make: FaultyStore(make(), Faults(str(log))))

    def new_calls() -> list[str]:
        lines = [line.split() for line in log.read_text().splitlines()]
        log.write_text("")
        return [
            f"{verb} {name(uri)}" for verb, *uris in lines for uri in uris[:1] if verb in WRITES and "-keyed-" in uri
        ]

    return new_calls


@locally_and_on_s3
def test_large_stream_is_moved_in_parts(base_uri: str, source: str, new_state_writes: Callable[[], list[str]]) -> None:
    plan = plan_rescale(source, join(base_uri, "target"), ["1"])
    execute_without_spark(plan)
    verbs = [call.split()[0] for call in new_state_writes()]
    assert [verbs.count(verb) for verb in ("begin_parts", "put_part", "complete_parts", "put")] == [1, PART_COUNT, 1, 0]
    assert max(entry.size for entry in open_store(base_uri).list(plan.target)) > (PART_COUNT - 1) * PART_SIZE


def test_bytes_depend_on_the_plan_alone(base_uri: str, source: str) -> None:
    """Workers move the state, then one loop, then workers again after a part of the result was lost."""
    plan = plan_rescale(source, join(base_uri, "target"), ["2"])
    execute(plan)
    first_files = files_of(plan)
    validate_published(source, plan.target, shared_processes())
    remove(plan)
    execute_without_spark(plan)
    assert files_of(plan) == first_files
    store = open_store(plan.target)
    lost_uri = next(entry.uri for entry in store.list(plan.target) if "-keyed-1-" in entry.uri)
    unpublish(places_of(plan))
    store.delete([places_of(plan).written_handles("keyed"), places_of(plan).certificate, lost_uri])
    execute(plan)
    assert files_of(plan) == first_files


@pytest.mark.parametrize(
    "snapshot_name",
    ["2-lazy-compressed", *map(slow, ("2-lazy", "1.20-raw", "2-heap-native", "2-canonical-compressed"))],
)
def test_bytes_of_small_and_rewritten_streams_depend_on_the_plan_alone(
    snapshot_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", 1000)
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 1500)
    plan = plan_rescale(snapshots.directory(snapshot_name), str(tmp_path / "target"), ["2"])
    execute(plan)
    first_files = files_of(plan)
    remove(plan)
    execute_without_spark(plan)
    assert files_of(plan) == first_files


def test_written_files_are_not_written_again(
    base_uri: str, source: str, new_state_writes: Callable[[], list[str]]
) -> None:
    plan = plan_rescale(source, join(base_uri, "target"), ["2"])
    execute_without_spark(plan)
    store = open_store(plan.target)
    unpublish(places_of(plan))
    store.delete([places_of(plan).written_handles("keyed")])
    assert new_state_writes()
    execute_without_spark(plan)
    assert new_state_writes() == []
    lost_uri = next(entry.uri for entry in store.list(plan.target) if "-keyed-1-" in entry.uri)
    unpublish(places_of(plan))
    store.delete([lost_uri])
    new_state_writes()
    execute_without_spark(plan)
    assert {call.split()[1] for call in new_state_writes()} == {name(lost_uri)}
    validate_published(source, plan.target, InProcessTasks())


def overwrite(store: stores.Store, uri: str) -> None:
    """Write other content of the same size."""
    data = store.read_all(uri, 1 << 30)[0]
    store.put(uri, data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])


def lengthen(store: stores.Store, uri: str) -> None:
    store.put(uri, store.read_all(uri, 1 << 30)[0] + b"\0")


def delete(store: stores.Store, uri: str) -> None:
    store.delete([uri])


@pytest.mark.parametrize("change", [overwrite, lengthen, delete])
def test_source_that_changes_after_planning_stops_the_run(
    base_uri: str, source: str, change: Callable[[stores.Store, str], None]
) -> None:
    plan = plan_rescale(source, join(base_uri, "target"), ["2"])
    store, changed_uri = open_store(source), plan.files[2].uri
    change(unprotected_store(source), changed_uri)
    if change is overwrite and Path(changed_uri).exists():
        mtime_ns = plan.files[2].pin.mtime_ns
        assert mtime_ns is not None
        os.utime(changed_uri, ns=(mtime_ns, mtime_ns + 1))
    claim(plan)
    with pytest.raises(SnapshotError) as caught:
        reshuffle_keyed_state(plan, InProcessTasks())
    assert (caught.value.exit_code, caught.value.path) == (3, changed_uri)
    assert [entry for entry in store.list(plan.target) if name(entry.uri) == "_metadata"] == []


@pytest.mark.parametrize("change", [overwrite, lengthen, delete])
@pytest.mark.parametrize("file_index", [0, 1])
def test_source_that_changes_after_moving_is_not_certified(
    base_uri: str, source: str, change: Callable[[stores.Store, str], None], file_index: int
) -> None:
    plan = plan_rescale(source, join(base_uri, "target"), ["2"])
    move(plan, InProcessTasks())
    change(unprotected_store(source), plan.files[file_index].uri)
    with pytest.raises(SnapshotError) as caught:
        validate_coverage(plan, InProcessTasks())
    assert caught.value.path == plan.files[file_index].uri
    if file_index and change is delete:
        assert "a file of the source was deleted" in caught.value.what
    assert open_store(base_uri).stat(places_of(plan).certificate) is None


def test_published_result_is_not_validated_against_an_incomplete_source(base_uri: str, source: str) -> None:
    plan = plan_rescale(source, join(base_uri, "target"), ["2"])
    execute_without_spark(plan)
    delete(unprotected_store(source), plan.files[1].uri)
    with pytest.raises(SnapshotError, match="files of the source are missing") as caught:
        validate_published(source, plan.target, InProcessTasks())
    assert (caught.value.path, caught.value.found) == (plan.files[1].uri, "1 missing")

"""Within one S3 the store itself copies: files are as if tasks wrote them, and few bytes pass through tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.execution.steps import reshuffle_keyed_state, validate_coverage, validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.new_streams import CopiedFile
from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.removal import discard
from rescale.storage import store as stores
from rescale.storage.locations import join, name
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.store import open_store
from rescale.text.errors import SnapshotError, StoreError
from support import snapshots
from support.faults import Faults, FaultyStore, Kind
from support.pipeline import execute_without_spark, move, plan_rescale
from support.results import remove
from support.s3 import S3Server, put_files, unprotected_store
from support.slow import slow

MIB = 1024 * 1024
SAVEPOINT_BYTES, PART_SIZE = 40 * MIB, 5 * MIB


@pytest.fixture(params=["s3", slow("uses_strict_s3")])
def bucket_uri(request: pytest.FixtureRequest) -> str:
    """Return a new bucket on each server."""
    server: S3Server = request.getfixturevalue(request.param)
    bucket = server.new_bucket("copies")
    return f"s3://{bucket}"


@pytest.fixture(scope="module")
def large_savepoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large") / "savepoint"
    write_savepoint(directory, SAVEPOINT_BYTES, value_size=100_000, parallelism=2)
    return directory


@pytest.fixture
def source(bucket_uri: str, large_savepoint: Path) -> str:
    return put_files(large_savepoint, join(bucket_uri, "source"))


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", PART_SIZE)


def bytes_copied_by_store(work: Callable[[], object]) -> int:
    """Return the number of bytes that the store copied itself."""
    copied_before = REQUESTS.bytes_copied
    work()
    return REQUESTS.bytes_copied - copied_before


def versions_by_name(plan: Plan) -> dict[str, tuple[int, str | None]]:
    """Return size and ETag of each file of state, by its name without the digest of the plan."""
    entries = [entry for entry in open_store(plan.target).list(plan.target) if "-keyed-" in entry.uri]
    return {name(entry.uri): (entry.pin.size, entry.pin.etag) for entry in entries}


def test_ranges_of_key_groups_are_copied_by_the_store(bucket_uri: str, source: str) -> None:
    plan = plan_rescale(source, join(bucket_uri, "target"), ["3"])
    bytes_written = plan.bytes_moved - bytes_copied_by_store(lambda: execute_without_spark(plan))
    assert bytes_written <= 3 * PART_SIZE, "the tasks wrote more than a part with the header of each new stream"
    assert validate_published(source, plan.target, InProcessTasks()).verdict == "complete"


def test_store_without_copies_gets_the_same_files(
    bucket_uri: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Versions are the same, so no file counts as changed; a message says once that the store has no copies."""
    plan = plan_rescale(source, join(bucket_uri, "target"), ["3"])
    move(plan, InProcessTasks())
    first_versions = versions_by_name(plan)
    remove(plan)
    own_store = stores._s3()
    monkeypatch.setattr(stores, "_s3", lambda: FaultyStore(own_store, Faults(str(tmp_path / "log"), Kind.NO_COPIES)))
    capfd.readouterr()
    assert bytes_copied_by_store(lambda: move(plan, InProcessTasks())) == 0
    assert (
        capfd.readouterr().err.count(
            "the store does not copy objects itself, so the tasks read and write them: planted"
        )
        == 1
    )
    assert versions_by_name(plan) == first_versions


def test_rocksdb_files_are_copied_whole_by_the_store(bucket_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    source = put_files(Path(snapshots.directory("2-rocksdb-native")), join(bucket_uri, "source"))
    plan = plan_rescale(source, join(bucket_uri, "target"))
    files = [stream for operator in plan.operators for stream in operator.streams if isinstance(stream, CopiedFile)]
    sst_bytes = sum(file.size for file in files if file.local_name.endswith(".sst"))
    assert 0 < sst_bytes <= bytes_copied_by_store(lambda: execute_without_spark(plan))


def test_files_that_rocksdb_does_not_rewrite_are_copied_whole_by_the_store(
    bucket_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A directory that RocksDB rewrites in part has such files."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    source = put_files(Path(snapshots.directory("2-rocksdb-native")), join(bucket_uri, "source"))
    plan = plan_rescale(source, join(bucket_uri, "target"), ["3"])
    (operator,) = (operator for operator in plan.operators if operator.compacted)
    planned_bytes = sum(stream.size for stream in operator.streams if isinstance(stream, CopiedFile))
    rewritten_prefixes = tuple(f"{plan.file_name(operator, compacted_file)}-" for compacted_file in operator.compacted)
    copied_bytes = bytes_copied_by_store(lambda: move(plan, InProcessTasks())) - planned_bytes
    source_etags = {entry.pin.etag for entry in open_store(source).list(source)}
    files = [
        entry for entry in open_store(plan.target).list(plan.target) if name(entry.uri).startswith(rewritten_prefixes)
    ]
    unchanged_files = [file for file in files if file.pin.etag in source_etags and file.uri.endswith(".sst")]
    assert 0 < sum(entry.size for entry in unchanged_files) <= copied_bytes < sum(file.size for file in files)
    assert validate_coverage(plan, InProcessTasks()).verdict == "complete"
    remove(plan)
    own_store = stores._s3()
    monkeypatch.setattr(stores, "_s3", lambda: FaultyStore(own_store, Faults(str(tmp_path / "log"), Kind.NO_COPIES)))
    capfd.readouterr()
    assert bytes_copied_by_store(lambda: move(plan, InProcessTasks())) == 0
    statement = (
        "have RocksDB rewrite files: the store does not copy objects itself, so the tasks read and write them: planted"
    )
    assert capfd.readouterr().err.count(statement) == 1
    assert files == [
        entry for entry in open_store(plan.target).list(plan.target) if name(entry.uri).startswith(rewritten_prefixes)
    ]


def test_changed_source_is_not_copied(bucket_uri: str, source: str) -> None:
    """A store that ignores the condition copies the other version, which validation refuses."""
    plan = plan_rescale(source, join(bucket_uri, "target"), ["3"])
    store, changed_uri = unprotected_store(source), plan.files[1].uri
    data = store.read_all(changed_uri, 1 << 30)[0]
    store.put(changed_uri, data[:-9] + bytes(9))
    claim(plan)
    with pytest.raises(SnapshotError, match="has changed") as caught:
        _ = reshuffle_keyed_state(plan, InProcessTasks()), validate_coverage(plan, InProcessTasks())
    assert caught.value.path == changed_uri


def test_lost_copies_are_made_again_and_all_copies_can_be_discarded(
    bucket_uri: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = plan_rescale(source, join(bucket_uri, "target"), ["3"])
    move(plan, InProcessTasks())
    store, places = open_store(plan.target), places_of(plan)
    lost_entry = next(entry for entry in store.list(plan.target) if "-keyed-1-" in entry.uri)
    store.delete([lost_entry.uri, places.written_handles("keyed")])
    own_store, log = stores._s3(), tmp_path / "log"
    monkeypatch.setattr(stores, "_s3", lambda: FaultyStore(own_store, Faults(str(log), Kind.ERROR, 1, "copy_part")))
    with pytest.raises(StoreError, match="planted"):
        reshuffle_keyed_state(plan, InProcessTasks())
    monkeypatch.setattr(stores, "_s3", lambda: own_store)
    assert 0 < bytes_copied_by_store(lambda: move(plan, InProcessTasks())) < lost_entry.size
    assert lost_entry in store.list(plan.target)
    store.begin_parts(lost_entry.uri, places.staging)
    discard(plan.target)
    assert store.list(bucket_uri) == store.list(source)
    bucket = bucket_uri.removeprefix("s3://")
    assert "Uploads" not in own_store._client.list_multipart_uploads(Bucket=bucket)  # type: ignore[attr-defined]

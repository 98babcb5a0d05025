"""RocksDB directories with files in any place, by absolute and relative handles, and files that change in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.handles import FileStream, RelativeFileStream, SegmentStream
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.places import places_of
from rescale.runstate.publication import publish
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import contains, join
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError
from support.edited import edit, relocated, repointed, with_streams
from support.pipeline import certify, execute_without_spark, plan_rescale
from support.rekeyed import contents
from support.s3 import S3Server, put_files, unprotected_store
from support.slow import slow

INCREMENTAL, CHANGING, MERGED = "1.20-rocksdb-incremental", "2-rocksdb-changing", "2-file-merging"


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.new_bucket("databases")


def path_in_s3(folder: Path, base_uri: str, path: str, *, scheme: str = "s3") -> str:
    """Return where a file of the folder lies in S3, as Flink would write it."""
    return path.removeprefix("file:").replace(str(folder), base_uri.replace("s3:", f"{scheme}:"))


def upload(folder: Path, name: str, base_uri: str, scheme: str = "s3") -> str:
    """Upload a fixture whose handles point to its place in S3; return its directory."""
    directory = relocated(name, folder)
    edit(directory, lambda metadata: repointed(metadata, partial(path_in_s3, folder, base_uri, scheme=scheme)))
    put_files(folder, base_uri)
    return str(directory).replace(str(folder), base_uri)


def keyed_state(target: str) -> list[tuple[int, bytes]]:
    snapshot = open_snapshot(target)
    return [group for operator in snapshot.operators for s in operator.keyed for group in contents(snapshot, s)]


def assert_copied_and_canonical(source: str, local_twin: str, base_uri: str, *allowed_prefixes: str) -> None:
    """Check a copy and a canonical result, which equals that of `local_twin`; both refer to no other file."""
    for result_format in ("keep", "canonical"):
        target, twin_target = join(base_uri, f"target-{result_format}"), f"{local_twin}-{result_format}"
        execute_without_spark(plan_rescale(source, target, allow_prefixes=allowed_prefixes, format=result_format))
        assert (
            validate_published(source, target, InProcessTasks(), allow_prefixes=allowed_prefixes).verdict == "complete"
        )
        assert all(contains(target, uri) for uri, _ in open_snapshot(target).files)
        if result_format == "canonical":
            execute_without_spark(plan_rescale(local_twin, twin_target, format=result_format))
            assert keyed_state(target) == keyed_state(twin_target) != []


@pytest.mark.parametrize(
    ("name", "scheme"),
    [slow(INCREMENTAL, "s3a"), slow(CHANGING, "s3p"), (MERGED, "s3"), slow("2-rocksdb-native", "s3")],
)
def test_absolute_handles_in_s3_are_read(name: str, scheme: str, bucket: str, tmp_path: Path) -> None:
    source = upload(tmp_path / "uploaded", name, f"s3://{bucket}/flink/job", scheme)
    assert_copied_and_canonical(source, str(relocated(name, tmp_path / "like")), f"s3://{bucket}/results")


@pytest.mark.parametrize("name", [INCREMENTAL, MERGED])
def test_absolute_handles_on_local_disk_are_read(name: str, tmp_path: Path) -> None:
    source = relocated(name, tmp_path / "source")
    assert_copied_and_canonical(str(source), str(relocated(name, tmp_path / "like")), str(tmp_path / "results"))


@pytest.mark.slow
def test_references_to_files_in_s3_are_certified_by_version(bucket: str, tmp_path: Path) -> None:
    source, target = upload(tmp_path / "uploaded", INCREMENTAL, f"s3://{bucket}/flink/job", "s3a"), f"s3://{bucket}/t"
    plan = plan_rescale(source, target, ["3"], files="refer")
    certificate = certify(plan, Proof.FILES)
    publish(plan)
    directories = [operator.directories for operator in certificate.operators if operator.directories]
    assert [(proof.by_files, proof.by_records, proof.files_copied) for proof in directories] == [(3, 0, 0)]
    for proof in (Proof.RECORDS, Proof.FILES):
        assert validate_published(source, target, InProcessTasks(), proof).proof == proof
    referred_uri = next(uri for uri, _ in open_snapshot(target, [f"s3://{bucket}"]).files if not contains(target, uri))
    unprotected_store(referred_uri).put(
        referred_uri, b"x" * len(open_store(referred_uri).read_all(referred_uri, 1 << 30)[0])
    )
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(
            IntegrityError, match="that the result refers to is gone, or is not the certified version"
        ) as caught:
            validate_published(source, target, InProcessTasks(), proof)
        assert caught.value.path == referred_uri


@pytest.mark.parametrize(("sibling", "storage"), [slow("shared", "s3"), ("taskowned", "local")])
def test_relative_handles_into_the_checkpoint_directory_of_the_job_are_read(
    sibling: str, storage: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Absolute handles are made relative to move a job's directory."""
    folder = tmp_path / "job"
    directory = relocated(CHANGING, folder)

    def as_relative(stream: Any) -> Any:
        if not isinstance(stream, FileStream):
            return stream
        name = stream.path.rpartition("/")[2]
        return RelativeFileStream(f"../{sibling}/{name}", stream.size)

    edit(directory, lambda metadata: with_streams(metadata, as_relative))
    (directory.parent / "shared").rename(directory.parent / "moved")
    (directory.parent / sibling).mkdir(exist_ok=True)
    for path in (directory.parent / "moved").iterdir():
        path.rename(directory.parent / sibling / path.name)
    base_uri = str(tmp_path)
    source = str(directory)
    if storage == "s3":
        base_uri = f"s3://{request.getfixturevalue('bucket')}"
        source = source.replace(str(tmp_path), base_uri)
        for path in folder.rglob("*"):
            if path.is_file():
                unprotected_store(base_uri).put(path.as_posix().replace(str(tmp_path), base_uri), path.read_bytes())
    assert_copied_and_canonical(source, str(relocated(CHANGING, tmp_path / "like")), join(base_uri, "results"))


@pytest.mark.slow
def test_files_outside_the_snapshot_are_read_if_their_prefix_is_allowed(bucket: str, tmp_path: Path) -> None:
    """A job takes over such state from another job in CLAIM mode."""
    base_uri, elsewhere = f"s3://{bucket}/flink/job", f"s3://{bucket}/flink/older-job/shared"
    source = upload(tmp_path / "uploaded", INCREMENTAL, base_uri, "s3a")
    store, metadata = unprotected_store(source), tmp_path / "edited"
    metadata.mkdir()
    (metadata / "_metadata").write_bytes(store.read_all(f"{source}/_metadata", 1 << 30)[0])

    def move_elsewhere(stream: Any) -> Any:
        if not isinstance(stream, FileStream | SegmentStream) or "/shared/" not in stream.path:
            return stream
        old_uri, name = stream.path.replace("s3a:", "s3:"), stream.path.rpartition("/")[2]
        store.put(f"{elsewhere}/{name}", store.read_all(old_uri, 1 << 30)[0])
        store.delete([old_uri])
        return replace(stream, path=f"s3a://{bucket}/flink/older-job/shared/{name}")

    edit(metadata, lambda job_metadata: with_streams(job_metadata, move_elsewhere))
    store.put(f"{source}/_metadata", (metadata / "_metadata").read_bytes())
    with pytest.raises(SnapshotError, match="points outside the snapshot") as caught:
        plan_rescale(source, f"s3://{bucket}/refused")
    assert f"--allow-prefix {elsewhere}" in str(caught.value.advice)
    assert_copied_and_canonical(
        source, str(relocated(INCREMENTAL, tmp_path / "like")), f"s3://{bucket}/results", f"{elsewhere}/"
    )


@pytest.mark.parametrize(
    ("change", "storage", "result_format"),
    [
        slow("changed", "s3", "canonical"),
        ("changed", "local", "keep"),
        ("gone", "s3", "keep"),
        ("gone", "local", "canonical"),
    ],
)
def test_source_file_that_changes_while_it_is_read_is_refused(
    change: str,
    storage: str,
    result_format: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file changes before the first read of the first run, the second read of the next, and so on."""
    base_uri = str(tmp_path / "results")
    if storage == "s3":
        base_uri = f"s3://{request.getfixturevalue('bucket')}"
        source = upload(tmp_path / "uploaded", INCREMENTAL, join(base_uri, "job"))
    else:
        source = str(relocated(INCREMENTAL, tmp_path / "source"))
    databases = [database for operator in open_snapshot(source).operators for database in operator.databases]
    file = next(file for file in databases[0].files if file.name.endswith(".sst"))
    uri, pin = open_snapshot(source).files[file.extent.file]
    store, other_store = open_store(uri), unprotected_store(uri)
    content, _ = store.read_all(uri, 1 << 30)
    read, read_count = store.read, [0]

    def spoil_read(read_number: int) -> Callable[..., bytes]:
        read_count[0] = 0

        def read_or_spoil(*arguments: Any) -> bytes:
            read_count[0] += arguments[0] == uri
            if arguments[0] == uri and read_count[0] == read_number:
                other_store.put(uri, b"x" * pin.size) if change == "changed" else other_store.delete([uri])
            return read(*arguments)

        return read_or_spoil

    for read_number in range(1, 20):
        with monkeypatch.context() as patched:
            plan = plan_rescale(source, join(base_uri, f"target-{read_number}"), format=result_format)
            patched.setattr(store, "read", spoil_read(read_number))
            error = error_of_run(plan)
        if error is None:
            assert read_count[0] < read_number, "the change was not noticed"
            break
        assert (error.exit_code, error.path) == (3, uri), error
        assert open_store(base_uri).stat(places_of(plan).metadata) is None
        other_store.put(uri, content)
    assert read_number > 1


def error_of_run(plan: Plan) -> RescaleError | None:
    """Return the Rescale error that a run ends with, if any."""
    try:
        execute_without_spark(plan)
    except RescaleError as error:
        return error
    return None

"""Large streams are moved in parts by several tasks; what stands already is left alone; what changed is noticed."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.errors import SnapshotError
from rescale.planning import planner, streams
from rescale.planning.plan import Plan
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support.pipeline import execute, move, plan_rescale, shared_spark
from support.s3 import S3Server

FIXTURES = Path(__file__).parent.parent / "fixtures"
MEBIBYTE = 1024 * 1024


@pytest.fixture
def files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream lies inline, however small."""
    monkeypatch.setattr(streams, "INLINE_LIMIT", -1)


def contents(target: Path) -> list[bytes]:
    return sorted(file.read_bytes() for file in target.iterdir() if file.name != "_metadata")


@pytest.mark.usefixtures("files_only")
@pytest.mark.parametrize("name", ["1.20-canonical-hashmap", "2-heap-native", "1.20-raw"])
def test_parts_make_the_same_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(FIXTURES / name / "snapshot")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    execute(plan_rescale(source, str(whole), ["5"]))
    monkeypatch.setattr(planner, "PART_SIZE", 700)
    plan = plan_rescale(source, str(parts), ["5"])
    assert sum(stream.size > 3 * 700 for operator in plan.operators for stream in operator.streams) > 3
    execute(plan)
    assert contents(parts) == contents(whole)
    assert not (tmp_path / "parts.rescale" / "staging").exists()


def test_parts_of_s3(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_savepoint(tmp_path / "source", 24 * MEBIBYTE, parallelism=2)
    bucket = f"parts-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(bucket)
    target = f"s3://{bucket}/rescaled"
    monkeypatch.setattr(planner, "PART_SIZE", 5 * MEBIBYTE)
    plan = plan_rescale(str(tmp_path / "source"), target, ["3"])
    assert all(stream.size > 5 * MEBIBYTE for operator in plan.operators for stream in operator.streams)
    execute(plan)
    written = {entry.uri: entry.size for entry in open_store(target).list(target)}
    assert len(written) == 4
    assert sum(written.values()) > 23 * MEBIBYTE


@pytest.mark.usefixtures("files_only")
def test_what_was_written_is_not_written_again(tmp_path: Path) -> None:
    plan = plan_rescale(str(FIXTURES / "1.20-heap-native" / "snapshot"), str(tmp_path / "target"), ["2"])
    move(plan)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "target").iterdir()}
    lost = min(before)
    lost.unlink()
    for half in ("keyed", "operator"):
        Path(plan.places.half(half)).unlink()
    move(plan)
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "target").iterdir()}
    assert {file for file in after if after[file] != before[file]} == {lost}
    execute(plan)


@pytest.mark.parametrize("change", ["touched", "longer", "gone"])
def test_a_local_source_that_changes_stops_the_run(tmp_path: Path, change: str) -> None:
    shutil.copytree(FIXTURES / "1.20-canonical-hashmap" / "snapshot", tmp_path / "source")
    plan = plan_rescale(str(tmp_path / "source"), str(tmp_path / "target"), ["2"])
    file = Path(_a_state_file(plan))
    match change:
        case "touched":
            os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
        case "longer":
            file.write_bytes(file.read_bytes() + b"x")
        case "gone":
            file.unlink()
    _is_refused(plan, str(file))


def test_an_object_that_changes_stops_the_run(s3: S3Server) -> None:
    bucket = f"change-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(bucket)
    source, target = f"s3://{bucket}/savepoint", f"s3://{bucket}/rescaled"
    store = open_store(source)
    for file in (FIXTURES / "1.20-canonical-hashmap" / "snapshot").iterdir():
        store.put(join(source, file.name), file.read_bytes())
    plan = plan_rescale(source, target, ["2"])
    uri = _a_state_file(plan)
    size = next(pin.size for name, pin in plan.files if name == uri)
    store.put(uri, bytes(size))
    _is_refused(plan, uri)


def _a_state_file(plan: Plan) -> str:
    """The first file that a keyed stream of the result is made from."""
    pieces = (piece for operator in plan.operators for stream in operator.streams for piece in stream.pieces)
    return plan.files[next(piece.file for piece in pieces if piece.file)].uri


def _is_refused(plan: Plan, uri: str) -> None:
    with pytest.raises(SnapshotError) as refusal:
        execute(plan)
    assert refusal.value.path == uri
    assert open_store(plan.target).stat(plan.places.metadata) is None
    assert shared_spark().defaultParallelism > 1, "and Spark goes on"

"""Full, over-quota or read-only disks: the error says so, nothing is published, and with room the run resumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from support import snapshots, warm
from support.commands import in_a_process
from support.disks import MIB, Disk, Share, disk_of, share_of_a_disk
from support.faults import Faults
from support.resuming import Case, assert_right, assert_right_or_unpublished, is_published
from support.slow import slow

ROOM_ADVICE = "make room there, or have the quota raised, then run the same command again"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with disk_of(64 * MIB, tmp_path / "disk") as mounted:
        yield mounted


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    with share_of_a_disk(tmp_path / "disk") as mounted:
        yield mounted


def case_on(disk: Disk | Share, folder: Path) -> Case:
    return Case(str(disk.path), folder, part_size=10_000, source=snapshots.directory("2-clicks"))


def size_of(folder: Path) -> int:
    """Return the bytes of the folder's files on a file system with pages of 4 KB."""
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("room_share", [0.2, slow(0.1), slow(0.3), slow(0.4), slow(0.5)])
def test_run_onto_a_full_disk_is_resumed_once_there_is_room(room_share: float, disk: Disk, tmp_path: Path) -> None:
    case = case_on(disk, tmp_path)
    case.succeed(case.target())
    needed_bytes = size_of(disk.path)
    target, full_disk_faults = case.target(), case.faults()
    disk.resize(needed_bytes + int(needed_bytes * room_share))
    assert case.run(target, full_disk_faults) == 1, warm.output(full_disk_faults)
    assert "No space left on device" in warm.output(full_disk_faults)
    assert f"what to do: {ROOM_ADVICE}" in warm.output(full_disk_faults)
    assert "Traceback" not in warm.output(full_disk_faults)
    assert_right_or_unpublished(target, case.source)
    disk.resize(64 * MIB)
    case.succeed(target)
    assert_right(target, case.source)


def test_run_that_filled_a_disk_can_be_discarded(disk: Disk, tmp_path: Path) -> None:
    case = case_on(disk, tmp_path)
    case.succeed(case.target())
    needed_bytes = size_of(disk.path)
    target, discard_faults = case.target(), case.faults()
    disk.resize(needed_bytes + needed_bytes // 5)
    assert case.run(target, case.faults()) == 1
    assert case.discard(target, discard_faults) == 0, warm.output(discard_faults)
    assert not Path(target).exists()
    assert not Path(f"{target}.rescale").exists()


@pytest.mark.slow
def test_run_over_its_quota_can_be_discarded_or_resumed_once_the_quota_is_raised(share: Share, tmp_path: Path) -> None:
    case = case_on(share, tmp_path)
    used_before = share.used()
    case.succeed(case.target())
    needed_bytes = share.used() - used_before
    for room_share in (0.05, 0.2, 0.4):
        target, quota_faults = case.target(), case.faults()
        discarded_target, discard_faults = case.target(), case.faults()
        share.limit(share.used() + int(needed_bytes * room_share))
        assert case.run(target, quota_faults) == 1
        output = warm.output(quota_faults)
        assert "Disk quota exceeded" in output
        assert f"path: {share.path}/" in output, "the error does not name the place"
        assert f"what to do: {ROOM_ADVICE}" in output
        assert "Traceback" not in output
        assert not is_published(target)
        assert case.run(discarded_target, case.faults()) == 1
        assert case.discard(discarded_target, discard_faults) == 0, warm.output(discard_faults)
        assert not Path(discarded_target).exists()
        assert not Path(f"{discarded_target}.rescale").exists()
        share.limit(None)
        case.succeed(target)
        assert_right(target, case.source)


def test_read_only_disk_is_a_request_error(disk: Disk, tmp_path: Path) -> None:
    case = case_on(disk, tmp_path)
    target, faults = case.target(), case.faults()
    disk.make_read_only()
    assert case.run(target, faults) == 2
    assert "Read-only file system" in warm.output(faults)
    assert list(disk.path.iterdir()) == []
    disk.make_writable()
    case.succeed(target)
    assert_right(target, case.source)


def test_source_on_a_read_only_disk_is_read(disk: Disk, tmp_path: Path) -> None:
    """RocksDB writes nothing beside the source, either."""
    for name in ("2-clicks", "2-rocksdb-native"):
        source = disk.path / name
        source.mkdir()
        for path in Path(snapshots.directory(name)).iterdir():
            (source / path.name).write_bytes(path.read_bytes())
    disk.make_read_only()
    for name in ("2-clicks", "2-rocksdb-native"):
        case = Case(str(tmp_path), tmp_path, 10_000, ("--max-parallelism", "40"), str(disk.path / name))
        target, faults = case.target(), case.faults()
        assert case.run(target, faults, parallelism="") == 0, warm.output(faults)
        assert_right(target, case.source)


@pytest.mark.slow
def test_full_scratch_disk_ends_a_run_that_is_resumed_once_there_is_room(disk: Disk, tmp_path: Path) -> None:
    """Rows pass through the scratch disk in the middle of a reshuffle."""
    source, target = tmp_path / "savepoint", str(tmp_path / "target")
    write_savepoint(source, 40_000_000, value_size=10_000)
    faults = Faults(str(tmp_path / "log"), writes_only=True)
    hook = tmp_path / "hook"
    hook.mkdir()
    arguments = ["run", source, "--target", target, "--max-parallelism", "1000", "--master", "local[2]"]
    variables = {**faults.environment(hook), "SPARK_LOCAL_DIRS": str(disk.path)}
    disk.resize(10 * MIB)
    failed_process = in_a_process(*arguments, **variables)
    assert failed_process.returncode == 1, failed_process.stderr
    assert "error: the scratch directory cannot be used: No space left on device\n" in failed_process.stderr
    assert (
        "  what to do: make room there, or name a directory with more room in SPARK_LOCAL_DIRS" in failed_process.stderr
    )
    assert not is_published(target)
    disk.resize(100 * MIB)
    resumed_process = in_a_process(*arguments, **variables)
    assert resumed_process.returncode == 0, resumed_process.stderr
    assert_right(target, str(source))
    assert list(disk.path.iterdir()) == []

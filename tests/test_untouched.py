"""Tests must not touch a committed snapshot: a change by any process is reported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.snapshots import directory
from support.untouched import Untouched, untouched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports which files are touched")


DEEDS: dict[str, Callable[[Path], object]] = {
    "opened for writing": lambda file: file.open("r+b").close(),
    "written to": lambda file: file.write_bytes(b"other"),
    "given other attributes": lambda file: file.chmod(0o600),
    "renamed": lambda file: file.rename(file.parent / "another"),
    "deleted": lambda file: file.unlink(),
}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    (folder := tmp_path / "snapshot" / "shared").mkdir(parents=True)
    (folder / "state").write_bytes(b"state")
    return tmp_path / "snapshot"


@pytest.mark.parametrize("deed", DEEDS)
def test_change_of_a_file_is_reported(deed: str, snapshot: Path) -> None:
    file = snapshot / "shared" / "state"
    with untouched(snapshot) as watched:
        DEEDS[deed](file)
        assert f"{file} was {deed}" in watched.take_touched()
        assert watched.take_touched() == []


def test_change_by_another_process_is_reported(snapshot: Path) -> None:
    with untouched(snapshot) as watched:
        subprocess.run(["sh", "-c", f": >> '{snapshot}/shared/state'"], check=True)
        assert watched.take_touched() == [f"{snapshot}/shared/state was opened for writing"]


def test_file_that_is_put_beside_a_snapshot_is_reported(snapshot: Path) -> None:
    with untouched(snapshot) as watched:
        (snapshot / "_metadata.tmp").touch()
        assert f"{snapshot}/_metadata.tmp was made" in watched.take_touched()


def test_reading_is_not_reported(snapshot: Path) -> None:
    with untouched(snapshot) as watched:
        assert (snapshot / "shared" / "state").read_bytes() == b"state"
        assert list(snapshot.iterdir())
        assert watched.take_touched() == []


def test_the_committed_snapshots_are_watched(sources: Untouched) -> None:
    assert {Path(directory(name)) for name in ("2-finished", "2-rocksdb-native")} <= {*sources.folders}

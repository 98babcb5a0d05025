"""Tests must not touch a committed snapshot; it is noticed if any process does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.snapshots import directory
from support.untouched import Untouched, untouched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who touches files")


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
def test_what_is_done_to_a_file_is_told(deed: str, snapshot: Path) -> None:
    file = snapshot / "shared" / "state"
    with untouched(snapshot) as watched:
        DEEDS[deed](file)
        assert f"{file} was {deed}" in watched.take_touched()
        assert watched.take_touched() == []


def test_so_is_what_another_process_does(snapshot: Path) -> None:
    with untouched(snapshot) as watched:
        subprocess.run(["sh", "-c", f": >> '{snapshot}/shared/state'"], check=True)
        assert watched.take_touched() == [f"{snapshot}/shared/state was opened for writing"]


def test_to_put_a_file_beside_it_is_told(snapshot: Path) -> None:
    with untouched(snapshot) as watched:
        (snapshot / "_metadata.tmp").touch()
        assert f"{snapshot}/_metadata.tmp was made" in watched.take_touched()


def test_to_read_is_nothing(snapshot: Path) -> None:
    with untouched(snapshot) as watched:
        assert (snapshot / "shared" / "state").read_bytes() == b"state"
        assert list(snapshot.iterdir())
        assert watched.take_touched() == []


def test_the_committed_snapshots_are_watched(sources: Untouched) -> None:
    assert {Path(directory(name)) for name in ("2-finished", "2-rocksdb-native")} <= {*sources.folders}

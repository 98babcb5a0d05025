"""The newest savepoint below a directory is found, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rescale.airflow.windows.newest_savepoint import newest_savepoint
from rescale.text.errors import RequestError
from support.snapshots import directory


def put(folder: Path, name: str, seconds: int) -> Path:
    """Make a savepoint that was written at this time."""
    place = folder / name
    shutil.copytree(directory("2-clicks"), place)
    os.utime(place / "_metadata", (seconds, seconds))
    return place


def test_newest_savepoint_is_found_by_its_time(tmp_path: Path) -> None:
    put(tmp_path, "savepoint-b", 2000)
    newest = put(tmp_path, "deeper/savepoint-a", 3000)
    put(tmp_path, "savepoint-c", 1000)
    newest_found = newest_savepoint(str(tmp_path))
    assert (newest_found.uri, newest_found.write_time.timestamp()) == (str(newest), 3000)


def test_incomplete_savepoints_and_results_are_ignored(tmp_path: Path) -> None:
    complete = put(tmp_path, "savepoint-a", 1000)
    (put(tmp_path, "savepoint-b", 2000) / "_metadata").unlink()
    result = put(tmp_path, "rescaled", 3000)
    beside = Path(f"{result}.rescale")
    beside.mkdir()
    (beside / "claim").write_text("{}")
    assert newest_savepoint(str(tmp_path)).uri == str(complete)


def test_pins_of_a_follower_are_ignored(tmp_path: Path) -> None:
    """They are checkpoints of a job that is rescaled while it runs, perhaps of another job."""
    complete = put(tmp_path, "savepoint-a", 1000)
    put(tmp_path, "rescaled.rescale/pins/0123456789abcdef/chk-57", 2000)
    put(tmp_path, "rescaled.rescale/rounds/57", 3000)
    assert newest_savepoint(str(tmp_path)).uri == str(complete)


def test_directory_without_a_savepoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no savepoint"):
        newest_savepoint(str(tmp_path))

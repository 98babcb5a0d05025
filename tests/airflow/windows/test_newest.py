"""The savepoint that was written last below a directory is found, and nothing that is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rescale.airflow.windows.newest import newest_savepoint
from rescale.text.errors import RequestError
from support.snapshots import directory


def put(folder: Path, name: str, seconds: int) -> Path:
    """A savepoint, written at this time."""
    place = folder / name
    shutil.copytree(directory("2-clicks"), place)
    os.utime(place / "_metadata", (seconds, seconds))
    return place


def test_the_newest_is_found_by_when_it_was_written(tmp_path: Path) -> None:
    put(tmp_path, "savepoint-b", 2000)
    newest = put(tmp_path, "deeper/savepoint-a", 3000)
    put(tmp_path, "savepoint-c", 1000)
    newest_found = newest_savepoint(str(tmp_path))
    assert (newest_found.uri, newest_found.written.timestamp()) == (str(newest), 3000)


def test_what_is_not_complete_or_a_result_of_ours_does_not_count(tmp_path: Path) -> None:
    taken = put(tmp_path, "savepoint-a", 1000)
    (put(tmp_path, "savepoint-b", 2000) / "_metadata").unlink()
    result = put(tmp_path, "rescaled", 3000)
    beside = Path(f"{result}.rescale")
    beside.mkdir()
    (beside / "claim").write_text("{}")
    assert newest_savepoint(str(tmp_path)).uri == str(taken)


def test_without_any_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no savepoint"):
        newest_savepoint(str(tmp_path))

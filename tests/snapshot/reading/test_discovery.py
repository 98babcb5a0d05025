"""Discovery of snapshots at a place."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rescale.snapshot.reading.discovery import find_metadata
from rescale.storage.locations import join
from rescale.storage.store import Entry, open_store
from rescale.text.errors import RequestError
from support.s3 import new_home, unprotected_store


@pytest.fixture(params=["local", "s3"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_home(request.param, request, tmp_path)


def put(home: str, *files: str) -> None:
    for file in files:
        unprotected_store(home).put(join(home, file), b"x")


def test_snapshot_is_found_by_its_directory_or_its_metadata(home: str) -> None:
    put(home, "_metadata", "chk-7/_metadata")
    assert find_metadata(home) == find_metadata(join(home, "_metadata")) == join(home, "_metadata")


def test_newest_complete_checkpoint_of_a_job_is_found(home: str) -> None:
    put(
        home,
        "chk-9/_metadata",
        "chk-10/_metadata",
        "chk-11/state",
        "shared/a",
        "x/chk-12/_metadata",
        "chk-x/_metadata",
        "chk-٩٩/_metadata",
    )
    assert find_metadata(home) == join(home, "chk-10/_metadata")


def test_only_checkpoint_directories_are_listed(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place may be a whole bucket."""
    put(home, "chk-9/_metadata", "chk-9/state", "shared/a", "b")
    store_class = type(open_store(home))
    list_files, entries = store_class.list, []

    def list_and_note(*arguments: Any) -> list[Entry]:
        entries.extend(list_files(*arguments))
        return entries

    monkeypatch.setattr(store_class, "list", list_and_note)
    assert find_metadata(home) == join(home, "chk-9/_metadata")
    assert [entry.uri for entry in entries] == [join(home, "chk-9/_metadata"), join(home, "chk-9/state")]


def test_checkpoint_of_a_later_start_with_a_lower_number_is_refused(home: str) -> None:
    """The numbers began anew, so the highest number is of an earlier start."""
    put(home, "chk-9/_metadata", "chk-11/state")
    time.sleep(1.1 if home.startswith("s3:") else 0.01)
    put(home, "chk-2/_metadata")
    with pytest.raises(RequestError, match="checkpoints of two starts of a job") as caught:
        find_metadata(home)
    assert "chk-9 " in str(caught.value.expected)
    assert str(caught.value.found).startswith("chk-2 ")
    assert find_metadata(join(home, "chk-9")) == join(home, "chk-9/_metadata")
    put(home, "chk-10/_metadata")
    assert find_metadata(home) == join(home, "chk-10/_metadata"), "the later start has passed the earlier one"


def test_place_without_a_snapshot_is_refused(home: str) -> None:
    put(home, "chk-11/state", "jobs/one/chk-3/_metadata")
    for place in (home, join(home, "chk-11"), join(home, "elsewhere"), join(home, "elsewhere/_metadata")):
        with pytest.raises(RequestError, match="there is no snapshot"):
            find_metadata(place)

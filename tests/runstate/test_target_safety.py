"""Places that a run may change: never the source, and beside the target only a directory that is Rescale's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.runstate.places import run_directory
from rescale.runstate.target_safety import (
    check_documents,
    is_same_place,
    mark_documents,
    refuse_misplaced,
    refuse_overlap,
)
from rescale.storage.files.document_folders import MARKER, STAGING, is_marked
from rescale.storage.files.local_store import LocalStore
from rescale.storage.locations import join
from rescale.text.errors import RequestError
from support.s3 import new_home, unprotected_store


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


@pytest.fixture
def documents(target: Path) -> Path:
    folder = Path(run_directory(str(target)))
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("/a/source", "/a/source"),
        ("/a/source", "/a/source/target"),
        ("/a/target/source", "/a/target"),
        ("/a/target.rescale/source", "/a/target"),
        ("s3://b/source", "s3://b/source/target"),
        ("s3://b/target/source", "s3://b/target"),
    ],
)
def test_target_in_or_around_the_source_is_refused(source: str, target: str) -> None:
    with pytest.raises(RequestError, match="must not lie inside the source, nor contain it"):
        refuse_overlap(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [("/a/source", "/a/source-2"), ("s3://b/source", "s3://b/source2"), ("/a/x", "s3://b/x"), ("s3://a/x", "s3://b/x")],
)
def test_target_beside_the_source_or_in_another_store_is_accepted(source: str, target: str) -> None:
    refuse_overlap(source, target)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_target_inside_a_snapshot_is_refused(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Flink could not delete the directory of that snapshot any more."""
    home = new_home(kind, request, tmp_path / "home")
    refuse_misplaced(join(home, "target"))
    unprotected_store(home).put(join(home, "_metadata"), b"x")
    with pytest.raises(RequestError, match="must not lie inside a snapshot") as caught:
        refuse_misplaced(join(home, "target"))
    assert caught.value.found == join(home, "_metadata")
    refuse_misplaced(join(home, "further/target"))


def test_target_may_lie_where_only_its_own_directory_may_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stat(_: LocalStore, uri: str) -> None:
        if not uri.startswith(str(tmp_path / "target")):
            raise RequestError("S3 refuses access")

    monkeypatch.setattr(LocalStore, "stat", stat)
    refuse_misplaced(str(tmp_path / "target"))


def test_link_into_the_source_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(RequestError):
        refuse_overlap(str(source), str(tmp_path / "link" / "target"))
    assert is_same_place(str(tmp_path / "link" / "target"), str(source / "target"))
    assert not is_same_place(str(tmp_path / "target"), str(source / "target"))
    assert not is_same_place(f"s3://b{tmp_path}", str(tmp_path))


def test_directory_with_documents_of_an_earlier_release_becomes_ours(target: Path, documents: Path) -> None:
    check_documents(str(target))
    (documents / "claim").touch()
    (documents / "certificate.json").touch()
    assert not is_marked(documents)
    mark_documents(str(target))
    assert is_marked(documents)


@pytest.mark.parametrize("names", [["certificate.json"], ["claim", "notes.txt"]])
def test_directory_of_another_program_is_refused(names: list[str], target: Path, documents: Path) -> None:
    for name in names:
        (documents / name).touch()
    with pytest.raises(RequestError, match=names[-1]):
        mark_documents(str(target))
    assert not is_marked(documents)


def test_document_must_be_a_regular_file(target: Path, documents: Path) -> None:
    (documents / "claim").mkdir()
    with pytest.raises(RequestError, match="claim"):
        check_documents(str(target))


def test_unfinished_files_of_others_are_refused_beside_a_marker_too(target: Path, documents: Path) -> None:
    (documents / MARKER).touch()
    (documents / "notes.txt").touch()
    (documents / STAGING).mkdir()
    check_documents(str(target))
    (documents / STAGING / "notes.txt").touch()
    with pytest.raises(RequestError, match=r"notes\.txt"):
        check_documents(str(target))


def test_link_in_place_of_the_documents_is_refused(target: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path(run_directory(str(target))).symlink_to(elsewhere)
    with pytest.raises(RequestError):
        check_documents(str(target))

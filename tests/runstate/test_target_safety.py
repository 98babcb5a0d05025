"""Places that a run may change: never the source, and beside the target only a directory that is Rescale's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.runstate.places import beside
from rescale.runstate.target_safety import check_documents, is_same_place, refuse_overlap, take_documents
from rescale.storage.files.document_folders import OWNER, STAGING, is_marked
from rescale.text.errors import RequestError


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


@pytest.fixture
def documents(target: Path) -> Path:
    folder = Path(beside(str(target)))
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
    take_documents(str(target))
    assert is_marked(documents)


@pytest.mark.parametrize("names", [["certificate.json"], ["claim", "notes.txt"]])
def test_directory_of_another_program_is_refused(names: list[str], target: Path, documents: Path) -> None:
    for name in names:
        (documents / name).touch()
    with pytest.raises(RequestError, match=names[-1]):
        take_documents(str(target))
    assert not is_marked(documents)


def test_document_must_be_a_regular_file(target: Path, documents: Path) -> None:
    (documents / "claim").mkdir()
    with pytest.raises(RequestError, match="claim"):
        check_documents(str(target))


def test_unfinished_files_of_others_are_refused_beside_a_marker_too(target: Path, documents: Path) -> None:
    (documents / OWNER).touch()
    (documents / "notes.txt").touch()
    (documents / STAGING).mkdir()
    check_documents(str(target))
    (documents / STAGING / "notes.txt").touch()
    with pytest.raises(RequestError, match=r"notes\.txt"):
        check_documents(str(target))


def test_link_in_place_of_the_documents_is_refused(target: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path(beside(str(target))).symlink_to(elsewhere)
    with pytest.raises(RequestError):
        check_documents(str(target))

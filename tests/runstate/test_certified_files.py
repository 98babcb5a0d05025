"""Every file that a certificate names is checked again, and the error names the first file that has changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from rescale.runstate.certified_files import CertifiedFile, certified_files, check_files
from rescale.storage.files.local_store import LocalStore
from rescale.storage.files.pinned_files import pin_of
from rescale.storage.store import Entry, Pin, open_store
from rescale.text.errors import IntegrityError, RequestError, StoreError
from support.s3 import S3Server

_list_files = LocalStore.list


@pytest.fixture
def uri_by_name(tmp_path: Path) -> dict[str, str]:
    """Return the locations, by name, of two files of a result and of a source file that the result refers to."""
    path_by_name = {
        "b": tmp_path / "target" / "b",
        "a": tmp_path / "target" / "a",
        "elsewhere": tmp_path / "source" / "shared",
    }
    for path in path_by_name.values():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"state")
    return {name: str(path) for name, path in path_by_name.items()}


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


@pytest.fixture
def files(uri_by_name: dict[str, str], target: str) -> tuple[CertifiedFile, ...]:
    pins = ((uri, open_store(uri).stat(uri)) for uri in uri_by_name.values())
    return certified_files(target, [(uri, pin) for uri, pin in pins if pin is not None])


def test_files_in_the_target_are_certified_by_name_and_others_by_location_in_order(
    files: tuple[CertifiedFile, ...], uri_by_name: dict[str, str], target: str
) -> None:
    assert [(file.name, file.is_elsewhere) for file in files] == [
        (uri_by_name["elsewhere"], True),
        ("a", False),
        ("b", False),
    ]
    assert [file.uri(target) for file in files] == [uri_by_name["elsewhere"], uri_by_name["a"], uri_by_name["b"]]
    assert [file.size for file in files] == [5, 5, 5]
    check_files(target, files, is_published=False)
    check_files(target, files, is_published=True)


@pytest.mark.parametrize(
    ("name", "is_published", "message", "advice"),
    [
        ("a", False, "nothing was published", "run the same command again"),
        ("a", True, "of the published result", "rescale validate"),
        ("elsewhere", False, "elsewhere that the result refers to", "restore the file"),
        ("elsewhere", True, "elsewhere that the result refers to", "restore the file"),
    ],
)
def test_missing_certified_file_is_an_integrity_error_with_advice(
    files: tuple[CertifiedFile, ...],
    uri_by_name: dict[str, str],
    target: str,
    name: str,
    is_published: bool,
    message: str,
    advice: str,
) -> None:
    Path(uri_by_name[name]).unlink()
    with pytest.raises(IntegrityError) as caught:
        check_files(target, files, is_published=is_published)
    assert message in caught.value.what
    assert advice in str(caught.value.advice)
    assert (caught.value.path, caught.value.found) == (uri_by_name[name], "no file")


def test_error_for_several_truncated_files_names_the_first_and_their_number(
    files: tuple[CertifiedFile, ...], uri_by_name: dict[str, str], target: str
) -> None:
    for name in ("a", "b"):
        Path(uri_by_name[name]).write_bytes(b"cut")
    with pytest.raises(IntegrityError) as caught:
        check_files(target, files, is_published=False)
    assert caught.value.path == uri_by_name["a"]
    assert "3 bytes" in str(caught.value.found)
    assert "(2 such files)" in str(caught.value.found)


def test_source_file_that_changes_while_it_is_compared_is_not_certified(
    uri_by_name: dict[str, str], target: str
) -> None:
    uri = uri_by_name["elsewhere"]
    pin = open_store(uri).stat(uri)
    assert pin is not None
    os.utime(uri, ns=(0, 1))
    with pytest.raises(StoreError, match="changed while it was compared") as caught:
        certified_files(target, [(uri, pin)])
    assert caught.value.path == uri


def test_source_files_are_checked_without_listing_their_directory(
    files: tuple[CertifiedFile, ...], uri_by_name: dict[str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of a bucket may let a run read the objects of the source, but not list them."""

    def list_target_only(store: LocalStore, directory: str) -> list[Entry]:
        if directory != target:
            raise RequestError("S3 denies access", path=directory)
        return _list_files(store, directory)

    monkeypatch.setattr(LocalStore, "list", list_target_only)
    check_files(target, files, is_published=False)
    Path(uri_by_name["elsewhere"]).unlink()
    with pytest.raises(IntegrityError, match="a file elsewhere"):
        check_files(target, files, is_published=True)


def test_files_are_checked_with_one_listing_of_the_target_and_one_call_for_the_rest(
    files: tuple[CertifiedFile, ...], uri_by_name: dict[str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    store = open_store(target)
    entries = store.list(target)

    def note_and_stat(uris: Sequence[str]) -> list[Pin | None]:
        calls.append(uris)
        return [pin_of(Path(uri).stat()) for uri in uris]

    def note_and_list(directory: str) -> list[Entry]:
        calls.append(directory)
        return entries

    monkeypatch.setattr(store, "stats", note_and_stat)
    monkeypatch.setattr(store, "list", note_and_list)
    monkeypatch.setattr(store, "stat", calls.append)
    check_files(target, files, is_published=True)
    assert calls == [[uri_by_name["elsewhere"]], target]


def test_certified_file_in_a_bucket_is_pinned_by_its_etag_without_quotes(s3: S3Server) -> None:
    bucket = s3.new_bucket("certified")
    s3.declare(f"s3://{bucket}")
    target = f"s3://{bucket}/target"
    uri = f"{target}/a"
    store = open_store(uri)
    store.put(uri, b"state")
    pin = store.stat(uri)
    assert pin is not None
    (file,) = certified_files(target, [(uri, pin)])
    assert file == CertifiedFile("a", 5, hashlib.md5(b"state").hexdigest(), None)
    store.put(uri, b"State")
    with pytest.raises(IntegrityError) as caught:
        check_files(target, [file], is_published=False)
    assert caught.value.path == uri

"""Every file that a certificate names is looked at again, and the first that is another one now is told."""

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

_list = LocalStore.list


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """The files of a result, by name, and one that it refers to."""
    by_name = {
        "b": tmp_path / "target" / "b",
        "a": tmp_path / "target" / "a",
        "elsewhere": tmp_path / "source" / "shared",
    }
    for path in by_name.values():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"state")
    return {name: str(path) for name, path in by_name.items()}


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


@pytest.fixture
def files(places: dict[str, str], target: str) -> tuple[CertifiedFile, ...]:
    pins = ((uri, open_store(uri).stat(uri)) for uri in places.values())
    return certified_files(target, [(uri, pin) for uri, pin in pins if pin is not None])


def test_they_are_in_order_and_go_by_their_names_but_those_elsewhere(
    files: tuple[CertifiedFile, ...], places: dict[str, str], target: str
) -> None:
    assert [(file.name, file.is_elsewhere) for file in files] == [
        (places["elsewhere"], True),
        ("a", False),
        ("b", False),
    ]
    assert [file.uri(target) for file in files] == [places["elsewhere"], places["a"], places["b"]]
    assert [file.size for file in files] == [5, 5, 5]
    check_files(target, files, published=False)
    check_files(target, files, published=True)


@pytest.mark.parametrize(
    ("name", "published", "what", "advice"),
    [
        ("a", False, "nothing was published", "run the same command again"),
        ("a", True, "of the published result", "rescale validate"),
        ("elsewhere", False, "of the source that the result refers to", "restore the file"),
        ("elsewhere", True, "of the source that the result refers to", "restore the file"),
    ],
)
def test_one_that_is_gone_is_told_with_the_way_round(
    files: tuple[CertifiedFile, ...],
    places: dict[str, str],
    target: str,
    name: str,
    published: bool,
    what: str,
    advice: str,
) -> None:
    Path(places[name]).unlink()
    with pytest.raises(IntegrityError) as caught:
        check_files(target, files, published=published)
    assert what in caught.value.what
    assert advice in str(caught.value.advice)
    assert (caught.value.path, caught.value.found) == (places[name], "no file")


def test_of_several_the_first_is_told_and_their_number(
    files: tuple[CertifiedFile, ...], places: dict[str, str], target: str
) -> None:
    for name in ("a", "b"):
        Path(places[name]).write_bytes(b"cut")
    with pytest.raises(IntegrityError) as caught:
        check_files(target, files, published=False)
    assert caught.value.path == places["a"]
    assert "3 bytes" in str(caught.value.found)
    assert "(2 such files)" in str(caught.value.found)


def test_one_elsewhere_that_changes_while_it_is_compared_has_no_certificate(
    places: dict[str, str], target: str
) -> None:
    uri = places["elsewhere"]
    pin = open_store(uri).stat(uri)
    assert pin is not None
    os.utime(uri, ns=(0, 1))
    with pytest.raises(StoreError, match="changed while it was compared") as caught:
        certified_files(target, [(uri, pin)])
    assert caught.value.path == uri


def test_what_lies_elsewhere_need_not_be_listed(
    files: tuple[CertifiedFile, ...], places: dict[str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a bucket whose owner lets a run read the source's objects, and no more."""

    def listed(store: LocalStore, directory: str) -> list[Entry]:
        if directory != target:
            raise RequestError("S3 denies access", path=directory)
        return _list(store, directory)

    monkeypatch.setattr(LocalStore, "list", listed)
    check_files(target, files, published=False)
    Path(places["elsewhere"]).unlink()
    with pytest.raises(IntegrityError, match="of the source"):
        check_files(target, files, published=True)


def test_those_in_the_target_take_one_listing_and_those_elsewhere_are_asked_for_at_once(
    files: tuple[CertifiedFile, ...], places: dict[str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    store = open_store(target)
    listed = store.list(target)

    def stats(uris: Sequence[str]) -> list[Pin | None]:
        looks.append(uris)
        return [pin_of(Path(uri).stat()) for uri in uris]

    def listing(directory: str) -> list[Entry]:
        looks.append(directory)
        return listed

    monkeypatch.setattr(store, "stats", stats)
    monkeypatch.setattr(store, "list", listing)
    monkeypatch.setattr(store, "stat", looks.append)
    check_files(target, files, published=True)
    assert looks == [[places["elsewhere"]], target]


def test_in_a_bucket_a_version_is_an_etag_without_quotes(s3: S3Server) -> None:
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
        check_files(target, [file], published=False)
    assert caught.value.path == uri

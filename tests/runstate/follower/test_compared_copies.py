"""A copy that was compared ahead is trusted only in the version that was compared, as a copy of the same original."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from rescale.plan.prepared_files import span_digest
from rescale.runstate.follower.compared_copies import ComparedCopies, compare_copies, compared_copies
from rescale.runstate.places import copies_place, prepared_place, run_directory
from rescale.runstate.removal import discard
from rescale.storage.checksums import Checksum
from rescale.storage.contract import Pin, Span
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support.s3 import new_home, unprotected_store

CHECKSUMS = "rescale.storage.s3.s3_store.S3Store.checksums"


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_home("s3", request, tmp_path / "home", "target", "target.rescale")


@pytest.fixture
def checksum_calls() -> Iterator[Mock]:
    """Let the store report the same checksum for all objects; yield the mock that counts these calls."""
    with patch(CHECKSUMS, return_value=[Checksum("CRC64NVME", 7)]) as checksum_calls:
        yield checksum_calls


def original_and_copy(home: str) -> tuple[Span, str, str]:
    """Put an original and its copy; return the original, and the copy's name and URI. The original has parts."""
    uri = join(home, "round/file")
    unprotected_store(uri).put(uri, b"state")
    original = Span(uri, 0, 5, Pin(5, etag='"abc-2"'))
    copy_name = f"{'0' * 32}-keyed-0-prepared-{span_digest(original)}.sst"
    copy_uri = join(home, f"target/{copy_name}")
    open_store(copy_uri).put(copy_uri, b"state")
    return original, copy_name, copy_uri


def version_of(uri: str) -> Pin:
    version = open_store(uri).stat(uri)
    assert version is not None
    return version


def test_copy_is_trusted_as_long_as_it_has_the_version_that_was_compared(home: str, checksum_calls: Mock) -> None:
    target = join(home, "target")
    original, copy_name, copy_uri = original_and_copy(home)
    compare_copies(target, {copy_name: original})
    stored_copies = compared_copies(target)
    assert stored_copies.algorithm_of(original, copy_uri, version_of(copy_uri)) == "CRC64NVME"
    assert (
        stored_copies.algorithm_of(original._replace(pin=Pin(5, etag="def-2")), copy_uri, version_of(copy_uri)) is None
    )
    assert stored_copies.algorithm_of(original, join(home, "target/another"), version_of(copy_uri)) is None
    call_count = checksum_calls.call_count
    compare_copies(target, {copy_name: original})
    assert checksum_calls.call_count == call_count, "it was compared before"
    open_store(copy_uri).put(copy_uri, b"STATE")
    assert stored_copies.algorithm_of(original, copy_uri, version_of(copy_uri)) is None
    assert stored_copies.algorithm_of(original, copy_uri, None) is None
    checksum_calls.side_effect = [[Checksum("CRC64NVME", 7)], [Checksum("CRC64NVME", 8)]]
    compare_copies(target, {copy_name: original})
    assert compared_copies(target) == ComparedCopies({}), "the new version is not equal"


@pytest.mark.parametrize(
    "answers", [[[], []], [[Checksum("CRC64NVME", 7)], []], [[Checksum("CRC64NVME", 7)], [Checksum("CRC32C", 7)]]]
)
def test_copy_without_a_common_checksum_is_left_to_the_last_round(
    home: str, checksum_calls: Mock, answers: list[list[Checksum]]
) -> None:
    original, copy_name, _ = original_and_copy(home)
    checksum_calls.side_effect = answers
    compare_copies(join(home, "target"), {copy_name: original, "not-copied": original})
    assert compared_copies(join(home, "target")) == ComparedCopies({})


def test_store_is_not_asked_if_the_etags_show_that_both_are_equal(home: str, checksum_calls: Mock) -> None:
    original, copy_name, copy_uri = original_and_copy(home)
    compare_copies(join(home, "target"), {copy_name: original._replace(pin=version_of(copy_uri))})
    assert not checksum_calls.called
    assert compared_copies(join(home, "target")) == ComparedCopies({})


@pytest.mark.usefixtures("checksum_calls")
@pytest.mark.parametrize("keeps_follower", [True, False])
def test_discard_removes_the_document_unless_the_copies_stay(home: str, keeps_follower: bool) -> None:
    target = join(home, "target")
    original, copy_name, _ = original_and_copy(home)
    compare_copies(target, {copy_name: original})
    open_store(target).put(prepared_place(target), b"{}")
    discard(target, keeps_follower=keeps_follower)
    assert (compared_copies(target).copies.keys() == {copy_name}) is keeps_follower
    remaining = [*open_store(target).list(target), *open_store(target).list(run_directory(target))]
    assert len(remaining) == (3 if keeps_follower else 0)


@pytest.mark.usefixtures("checksum_calls")
def test_damaged_document_names_no_copy(home: str) -> None:
    target = join(home, "target")
    original, copy_name, _ = original_and_copy(home)
    compare_copies(target, {copy_name: original})
    open_store(target).put(copies_place(target), b"[{}]")
    assert compared_copies(target) == ComparedCopies({})
    compare_copies(target, {copy_name: original})
    assert compared_copies(target).copies.keys() == {copy_name}

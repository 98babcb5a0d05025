"""Files are kept under another name: by one request, by copies of parts of bounded size, or through this process."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Lock
from unittest.mock import patch

import pytest

from rescale.storage.contract import Pin, Span
from rescale.storage.keeping import is_one_file, keep, takes_one_request
from rescale.storage.locations import parent
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.text.errors import SnapshotError
from support.s3 import S3Server, requests_of, unprotected_store

MIB = 1 << 20
DATA = bytes(range(256)) * 4096 * 11
"""11 MiB."""


def span(uri: str) -> Span:
    pin = open_store(uri).stat(uri)
    assert pin is not None
    return Span(uri, 0, pin.size, pin)


def test_kept_local_file_is_a_hard_link(tmp_path: Path) -> None:
    source, kept_path = tmp_path / "a", tmp_path / "kept" / "b"
    source.write_bytes(DATA)
    keep(str(kept_path), span(str(source)), str(tmp_path / "staging"))
    assert is_one_file(str(kept_path), str(source))
    source.unlink()
    assert kept_path.read_bytes() == DATA
    assert not is_one_file(str(kept_path), str(source))


@pytest.mark.parametrize(("part_size", "request_counts"), [(16 * MIB, {"PutObject": 1}), (5 * MIB, {"UploadPart": 3})])
def test_a_local_file_is_kept_in_s3_in_one_put_or_in_parts(
    s3: S3Server, tmp_path: Path, part_size: int, request_counts: dict[str, int]
) -> None:
    source = tmp_path / "a"
    source.write_bytes(DATA)
    kept_uri = f"s3://{s3.new_bucket('keeping')}/pins/a"
    s3.declare(parent(kept_uri))
    with patch("rescale.storage.keeping._PART_SIZE", part_size):
        sent = requests_of(lambda: keep(kept_uri, span(str(source)), parent(kept_uri)))
    assert {kind: sent[kind] for kind in ("PutObject", "UploadPart") if sent[kind]} == request_counts
    assert open_store(kept_uri).read_all(kept_uri, len(DATA))[0] == DATA


def test_few_files_are_in_memory_at_once(s3: S3Server, tmp_path: Path) -> None:
    """A follower keeps 32 files at once, and each may have 256 MiB."""
    target = f"s3://{s3.new_bucket('keeping')}/pins"
    s3.declare(target)
    store, lock, open_puts, most_open = open_store(target), Lock(), 0, 0
    put = store.put

    def put_and_count(uri: str, data: bytes) -> None:
        nonlocal open_puts, most_open
        with lock:
            open_puts += 1
            most_open = max(most_open, open_puts)
        time.sleep(0.5)
        with lock:
            open_puts -= 1
        put(uri, data)

    source = tmp_path / "a"
    source.write_bytes(DATA)

    def keep_file(number: int) -> None:
        keep(f"{target}/{number}", span(str(source)), target)

    with patch.object(type(store), "put", side_effect=put_and_count):
        side_by_side(keep_file, range(8))
    assert 0 < most_open <= 4


@pytest.mark.parametrize(
    ("largest_copy_bytes", "request_counts"), [(16 * MIB, {"CopyObject": 1}), (MIB, {"UploadPartCopy": 3})]
)
def test_an_object_is_copied_by_the_store(
    s3: S3Server, largest_copy_bytes: int, request_counts: dict[str, int]
) -> None:
    bucket = s3.new_bucket("keeping")
    source, kept_uri = f"s3://{bucket}/a", f"s3://{bucket}/pins/a"
    unprotected_store(source).put(source, DATA)
    s3.declare(parent(kept_uri))
    copied_before = REQUESTS.bytes_copied
    with (
        patch("rescale.storage.keeping._PART_SIZE", 5 * MIB),
        patch("rescale.storage.keeping._LARGEST_COPY_BYTES", largest_copy_bytes),
    ):
        sent = requests_of(lambda: keep(kept_uri, span(source), parent(kept_uri)))
    assert {kind: sent[kind] for kind in ("CopyObject", "UploadPartCopy") if sent[kind]} == request_counts
    assert not sent["GetObject"]
    assert REQUESTS.bytes_copied - copied_before == len(DATA)
    assert open_store(kept_uri).read_all(kept_uri, len(DATA))[0] == DATA


def test_a_file_that_changed_is_not_kept(tmp_path: Path) -> None:
    source, kept_path = tmp_path / "a", tmp_path / "b"
    source.write_bytes(DATA)
    old_span = span(str(source))
    source.write_bytes(DATA[::-1] + b"more")
    with pytest.raises(SnapshotError):
        keep(str(kept_path), old_span, str(tmp_path / "staging"))
    assert not kept_path.exists()


def test_only_whole_files_of_one_kind_of_store_can_be_kept_by_one_request() -> None:
    pin = Pin(100)
    assert takes_one_request("/b", Span("/a", 0, 100, pin))
    assert takes_one_request("s3://b/b", Span("s3://b/a", 0, 100, pin))
    assert not takes_one_request("/b", Span("/a", 1, 99, pin))
    assert not takes_one_request("/b", Span("s3://b/a", 0, 100, pin))
    assert not takes_one_request("s3://b/b", Span("s3://b/a", 0, 2 << 30, Pin(2 << 30)))
    assert not is_one_file("s3://b/a", "s3://b/a")

"""Directory buckets (S3 Express) refuse to list by a prefix that does not end in a slash."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from rescale.cli.main import main
from rescale.storage import store as stores
from rescale.storage.s3.s3_store import S3Store
from support.s3 import S3Server, put_files
from support.snapshots import directory
from support.wire import CARRIED_OUT, Treatment, WireRequest, wire_to


def _refuse_prefix_without_slash(request: WireRequest) -> Treatment:
    (prefix,) = parse_qs(urlsplit(request.path).query).get("prefix", [""])
    if prefix and not prefix.endswith("/"):
        return Treatment(carried_out=False, instead=(400, "InvalidPrefix"))
    return CARRIED_OUT


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a directory bucket in the S3 store of this process."""
    monkeypatch.setenv("AWS_S3_DISABLE_EXPRESS_SESSION_AUTH", "true")  # moto has no sessions
    s3.create_bucket(name := f"state-{uuid.uuid4().hex[:8]}--usw2-az1--x-s3")
    with wire_to(s3) as wire:
        wire.decide = _refuse_prefix_without_slash
        monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
        store = S3Store()
        monkeypatch.setattr(stores, "_s3", lambda: store)
        yield name


def test_directory_bucket_is_listed_by_a_name_prefix(bucket: str, s3: S3Server) -> None:
    for key in ("job/chk-1/_metadata", "job/chk-12/_metadata", "job/shared/file", "job-2/chk-1/_metadata"):
        s3.client().put_object(Bucket=bucket, Key=key, Body=b"x")
    entries = S3Store().list(f"s3://{bucket}/job", "chk-1")
    assert [entry.uri.removeprefix(f"s3://{bucket}/job/") for entry in entries] == [
        "chk-1/_metadata",
        "chk-12/_metadata",
    ]


def test_open_uploads_in_a_directory_bucket_are_aborted(bucket: str, s3: S3Server) -> None:
    keys = ("file", "file/part", "file-2", "other")
    for key in keys:
        s3.client().create_multipart_upload(Bucket=bucket, Key=f"a/{key}")
    s3.declare(f"s3://{bucket}/a")
    S3Store().abort_parts(f"s3://{bucket}/a/file")
    uploads = s3.client().list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert {upload["Key"] for upload in uploads} == {"a/file-2", "a/other"}


def test_etag_in_a_directory_bucket_is_no_checksum(bucket: str, s3: S3Server) -> None:
    s3.client().put_object(Bucket=bucket, Key="key", Body=b"1234")
    store, uri = S3Store(), f"s3://{bucket}/key"
    pin = store.stat(uri)
    assert pin is not None
    assert "ETag" not in {checksum.algorithm for checksum in store.checksums(uri, pin)}


def test_run_publishes_in_a_directory_bucket(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = put_files(Path(directory("2-clicks")), f"s3://{bucket}/source")
    code = main(["run", source, "--target", f"s3://{bucket}/target", "--parallelism", "3"])
    assert code == 0, capsys.readouterr().out

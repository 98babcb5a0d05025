"""A target in a bucket that keeps every version: a run publishes there, and can be discarded.

A deletion there adds a delete marker and removes no version, which is enough for runs and discards.
"""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from support import warm
from support.faults import Kind
from support.resuming import KILLED, Case, assert_right, is_published
from support.s3 import S3Server
from support.snapshots import directory
from support.wire import CARRIED_OUT, Treatment, WireRequest, wire_to


@pytest.fixture
def bucket(s3: S3Server) -> str:
    name = s3.new_bucket("versioned")
    s3.client().put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


@pytest.mark.slow
def test_killed_run_is_resumed_discarded_and_repeated_in_a_versioned_bucket(bucket: str, tmp_path: Path) -> None:
    case = Case(f"s3://{bucket}", tmp_path, part_size=10_000, source=directory("2-finished"))
    first, second, client = case.target(), case.target(), boto3.client("s3")
    for target in (first, second):
        assert case.run(target, case.faults(Kind.KILL, where="candidate")) == KILLED
    case.succeed(first)
    assert_right(first, case.source)
    discarded, anew = case.faults(), case.faults()
    assert case.discard(second, discarded) == 0, warm.output(discarded)
    prefix = second.removeprefix(f"s3://{bucket}/")
    assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix=prefix)
    assert client.list_object_versions(Bucket=bucket, Prefix=prefix)["Versions"], "the discard left the versions"
    assert case.run(second, anew, parallelism="2") == 0, warm.output(anew)
    assert is_published(second)
    assert_right(second, case.source)


@pytest.mark.slow
def test_every_put_has_a_checksum_where_the_bucket_requires_one(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 requires checksums in buckets that lock objects. The refusal here has the wording of S3."""
    name = s3.new_bucket("checksums")
    case = Case(f"s3://{name}", tmp_path, part_size=10_000, source=directory("2-finished"))
    target = case.target()
    with wire_to(s3) as wire:
        wire.decide = require_checksum
        monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
        case.succeed(target)
    assert_right(target, case.source)


def require_checksum(request: WireRequest) -> Treatment:
    checked = any(name.lower().startswith(("x-amz-checksum-", "content-md5")) for name in request.headers)
    if request.method != "PUT" or checked:
        return CARRIED_OUT
    says = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters"
    return Treatment(carried_out=False, instead=(400, "InvalidRequest"), message=says)

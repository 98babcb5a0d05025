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
    resumed_target, discarded_target, client = case.target(), case.target(), boto3.client("s3")
    for target in (resumed_target, discarded_target):
        assert case.run(target, case.faults(Kind.KILL, where="candidate")) == KILLED
    case.succeed(resumed_target)
    assert_right(resumed_target, case.source)
    discard_faults, repeat_faults = case.faults(), case.faults()
    assert case.discard(discarded_target, discard_faults) == 0, warm.output(discard_faults)
    prefix = discarded_target.removeprefix(f"s3://{bucket}/")
    assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix=prefix)
    assert client.list_object_versions(Bucket=bucket, Prefix=prefix)["Versions"], "the discard left the versions"
    assert case.run(discarded_target, repeat_faults, parallelism="2") == 0, warm.output(repeat_faults)
    assert is_published(discarded_target)
    assert_right(discarded_target, case.source)


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
    has_checksum = any(name.lower().startswith(("x-amz-checksum-", "content-md5")) for name in request.headers)
    if request.method != "PUT" or has_checksum:
        return CARRIED_OUT
    message = (
        "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters"
    )
    return Treatment(carried_out=False, instead=(400, "InvalidRequest"), message=message)
